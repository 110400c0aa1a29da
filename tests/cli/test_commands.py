"""Commands as values: a field is an option, a group is shared, an option of a construction too."""

import argparse
import re
from dataclasses import dataclass

import pytest

from unmask.cli import _COMMANDS, _parser, main
from unmask.cli.command import (
    add_options,
    argument,
    declared,
    option,
    required,
    value,
)
from unmask.cli.score import ScoreCommand
from unmask.constructions import CONSTRUCTIONS
from unmask.constructions.construction import Construction
from unmask.errors import MethodError, UnmaskError
from unmask.joints.form_engine import form_joint
from unmask.joints.forms import Product
from unmask.names import METHODS, Method, MethodOption
from unmask.plots.styles import style_of

PAIR = "the [MASK] sat on the [MASK]."


@dataclass(frozen=True, kw_only=True)
class Tone:
    GROUP = "tone"
    times: int = option("how often (default: {default})", "N", default=1)


@dataclass(frozen=True, kw_only=True)
class Greet(Tone):
    names: tuple[str, ...] = argument("whom", "NAME")
    place: str = required("where, at 100% of it", short="-p")
    title: tuple[str, ...] = option("titles (default: {default})", default=("Dr",), commas=True)
    style: str = option("how", default="loud", choices=("loud", "half-loud"))
    pause: float | None = option("seconds", "X", group="tone")


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="greet")
    add_options(parser, declared(Greet))
    return parser


def parsed(*words: str) -> Greet:
    return value(Greet, vars(parser().parse_args(words)))


def test_a_field_is_an_option_and_a_command_line_a_value() -> None:
    bare = parsed("Ada", "Emmy", "-p", "here")
    assert bare == Greet(names=("Ada", "Emmy"), place="here")
    assert (bare.title, bare.times) == (("Dr",), 1)
    words = ["--title", "Ms, Dr", "--title", "Ms", "--times", "2", "--style", "Half_Loud"]
    full = parsed("Ada", "--place", "x", *words, "--pause", "0.5")
    assert (full.title, full.times, full.pause) == (("Ms", "Dr"), 2, 0.5)
    assert full.style == "half-loud"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--times x", "--times takes a whole number, not 'x'"),
        ("--times 1.5", "--times takes a whole number, not '1.5'"),
        ("--pause soon", "--pause takes a number, not 'soon'"),
        ("--style shy", "--style is one of loud, half-loud, not 'shy'"),
    ],
)
def test_a_value_is_rejected_in_one_way(words: str, sentence: str) -> None:
    with pytest.raises(UnmaskError) as raised:
        parsed("Ada", "-p", "here", *words.split())
    assert str(raised.value) == sentence


def test_help_has_groups_defaults_and_plain_percent_signs() -> None:
    text = re.sub(r"\s+", " ", parser().format_help())
    assert text.startswith("usage: greet -p PLACE [OPTION ...] NAME ")
    assert "at 100% of it" in text
    assert "titles (default: Dr)" in text
    assert "tone: --pause X seconds --times N how often (default: 1)" in text


@pytest.mark.parametrize("command", _COMMANDS)
def test_every_group_of_help_fits_a_screen(command, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    commands = _parser()._subparsers._group_actions[0].choices  # type: ignore[union-attr]
    groups = commands[command].format_help().split("\n\n")
    assert max(group.count("\n") for group in groups) < 24
    # a usage and a purpose, each on its own line
    usage, purpose = groups[:2]
    assert usage.startswith(f"usage: unmask {command} ")
    assert purpose.endswith(".")
    assert not {"\n", ";"} & set(usage + purpose)


@pytest.mark.slow
def test_a_command_can_be_called_without_a_command_line(folder, capsys) -> None:
    assert ScoreCommand(model=folder, input=("the cat sat.",), json=True, quiet=True).run() == 0
    called = capsys.readouterr().out
    assert main(["score", "the cat sat.", "-m", folder, "--json", "--quiet"]) == 0
    assert capsys.readouterr().out == called != ""


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
