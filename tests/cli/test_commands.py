"""Commands as values: a field is an option, a group is shared, an option of a construction too."""

import re
import subprocess
import sys
from dataclasses import dataclass, fields

import pytest
from tiny_tokenizers import ODD, save_bert

from unmask.cli import _COMMANDS, _parser, main, options
from unmask.cli.command import (
    add_options,
    argument,
    declared,
    group,
    option,
    required,
    value,
)
from unmask.cli.score import ScoreCommand
from unmask.constructions import CONSTRUCTIONS
from unmask.constructions.construction import Construction
from unmask.errors import MethodError
from unmask.joints.form_engine import form_joint
from unmask.joints.forms import Product
from unmask.names import METHODS, Method, MethodOption
from unmask.plots.styles import style_of

PAIR = "the [MASK] sat on the [MASK]."


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    return str(save_bert(tmp_path_factory.mktemp("bert"), bias=dict.fromkeys(ODD, -30.0)))


@dataclass(frozen=True, kw_only=True)
class Greeting:
    GROUP = "tone"
    shout: bool = option("in capitals", default=False)
    times: int = option("how often (default: {default})", "N", default=1)


@dataclass(frozen=True, kw_only=True)
class Greet:
    names: tuple[str, ...] = argument("whom", "NAME")
    place: str = required("where, at 100% of it", short="-p")
    title: tuple[str, ...] = option("titles (default: {default})", default=("Dr",))
    tone: Greeting = group(Greeting(times=3), without=("shout",))
    pause: float | None = option("seconds", "X", group="tone")


def parsed(*words: str) -> Greet:
    import argparse

    parser = argparse.ArgumentParser()
    add_options(parser, Greet)
    return value(Greet, vars(parser.parse_args(words)))


def test_a_field_is_an_option_and_a_command_line_a_value() -> None:
    bare = parsed("Ada", "Emmy", "-p", "here")
    assert bare == Greet(names=("Ada", "Emmy"), place="here", tone=Greeting(times=3))
    assert bare.title == ("Dr",)
    full = parsed("Ada", "--place", "x", "--title", "Ms", "--times", "2", "--pause", "0.5")
    assert full == Greet(
        names=("Ada",), place="x", title=("Ms",), tone=Greeting(times=2), pause=0.5
    )


def test_help_has_groups_defaults_and_plain_percent_signs() -> None:
    import argparse

    parser = argparse.ArgumentParser()
    add_options(parser, Greet)
    text = re.sub(r"\s+", " ", parser.format_help())
    assert "at 100% of it" in text
    assert "titles (default: Dr)" in text
    assert "tone: --times N how often (default: 3)" in text
    assert "--shout" not in text


def test_an_option_of_several_commands_has_one_help() -> None:
    """Options in a shared group are declared once; what differs is a default or said on purpose."""
    helps: dict[str, set[str]] = {}
    for command in _COMMANDS.values():
        if isinstance(command, type):
            for one in declared(command):
                helps.setdefault(one.name, set()).add(one.help)
    shared = [one.name for one in fields(options.Running)] + ["model"]
    # head takes its model by place
    assert {name: len(helps[name]) for name in shared if len(helps[name]) > 1} == {"model": 2}


@pytest.mark.slow
def test_a_command_can_be_called_without_a_command_line(folder, capsys) -> None:
    assert ScoreCommand(model=folder, input=("the cat sat.",), json=True, quiet=True).run() == 0
    called = capsys.readouterr().out
    assert main(["score", "the cat sat.", "-m", folder, "--json", "--quiet"]) == 0
    assert capsys.readouterr().out == called != ""


def test_no_help_imports_torch() -> None:
    code = (
        "import sys; from unmask.cli import _parser;"
        "[one.format_help() for one in _parser()._subparsers._group_actions[0].choices.values()];"
        "assert not {'torch', 'numpy'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_an_option_of_a_construction_is_declared_once(folder, monkeypatch, capsys) -> None:
    """An entry and a function: options of commands, checks and figures follow."""

    def check(weight: object) -> None:
        if not isinstance(weight, float) or not 0 <= weight <= 1:
            raise MethodError(f"weight is a number from 0 to 1, not {weight}")

    def tilted(tables, *, weight: float = 0.5):
        form = Product((weight, 1 - weight), ())
        return form_joint(form, tables, method="tilted", diagnostics={"weight": weight})

    weight = MethodOption(float, "share of the first table (default: 0.5)", check, "X")
    entry = Method("tilted.TILTED", "one table more", "#123456", "d", {"weight": weight})
    monkeypatch.setitem(METHODS, "tilted", entry)
    monkeypatch.setitem(CONSTRUCTIONS, "tilted", Construction(tilted, "a tilted mean"))
    commands = _parser()._subparsers._group_actions[0].choices  # type: ignore[union-attr]
    for name in ("fill", "evaluate"):
        text = re.sub(r"\s+", " ", commands[name].format_help())
        assert "--weight X tilted: share of the first table (default: 0.5)" in text
    arguments = ["fill", PAIR, "-m", folder, "--exact", "--method", "tilted", "--json", "--quiet"]
    assert main([*arguments, "--weight", "0.25"]) == 0
    assert '"weight": 0.25' in capsys.readouterr().out
    assert main([*arguments, "--weight", "2"]) == 2
    assert "weight is a number from 0 to 1, not 2.0" in capsys.readouterr().err
    assert main([*arguments[:-3], "log-pool", "--weight", "0.5"]) == 2
    assert "log-pool has no option 'weight'" in capsys.readouterr().err
    assert (style_of("tilted").colour, style_of("tilted").marker) == ("#123456", "d")
