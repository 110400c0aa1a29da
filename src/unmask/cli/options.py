"""Options that several commands share: the model, how it is run, which joints, and what is read."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from unmask.cli.command import Option, declared_by, option, required
from unmask.errors import UnmaskError
from unmask.names import METHODS, SUPPORTS
from unmask.plots import saving
from unmask.printable import printable, quoted
from unmask.records.rows import FORMATS
from unmask.text.typed import candidates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from unmask.jobs.model_source import ModelSource
    from unmask.language_model import LanguageModel
    from unmask.queries.joint_model import Axes
    from unmask.records.corpora import CorpusSpec
    from unmask.settings import Settings

Value = TypeVar("Value")
# digits, for tokens and words may hold an equals sign too
_BLANK = re.compile(r"([0-9]{1,9})=(.*)", re.DOTALL)
NAMED = ", ".join(SUPPORTS)
_UNITS = {"TB": 10**12, "GB": 10**9, "MB": 10**6, "KB": 10**3, "B": 1}
INPUT, BLANKS, CONSTRUCTION = "input", "blanks", "construction"
OUTPUT, RUNNING = "output", "running"

METHOD = (
    f"{', '.join(METHODS)}, all, or package.module:function of your own; several with commas "
    "(default: {default})"
)
SUPPORT = f"tokens of a blank: {NAMED}, or tokens with commas: man,woman; a single one as man,"


def method_options(*, in_fill: bool) -> list[Option]:
    """The options that constructions declare; those of `unmask fill` alone come last."""
    every = [
        (f"{method}: {entry.help}", name, entry)
        for method, construction in METHODS.items()
        for name, entry in construction.options.items()
    ]
    return [
        Option(
            help,
            entry.metavar or "|".join(map(str, entry.choices or ())) or None,
            choices=entry.choices,
            group=CONSTRUCTION,
            name=name,
            type=entry.type,
        )
        for help, name, entry in sorted(every, key=lambda option: option[2].in_fill)
        if in_fill or not entry.in_fill
    ]


# options that commands share, each a field
MODEL = partial(required, "masked LM: a name on the Hugging Face Hub, or a folder", short="-m")
INPUT_FORMAT = partial(
    option,
    f"{', '.join(FORMATS)}, where the name of the input does not show it",
    "FORMAT",
    group=INPUT,
)
BLANK = partial(
    option,
    "what to blank in an ordinary text: a word or phrase that occurs once, a span of characters, "
    "or the index of a token (of a number, give its span); repeat the option for several. A word "
    "is one blank, which holds a single token",
    "WORD|START:END|INDEX",
    default=(),
    group=INPUT,
)
_output = partial(option, group=OUTPUT)
TOP = partial(_output, "number of results to print (default: {default})", "N", default=10)
FIGURE = partial(_output, "also draw a .svg, .png or .pdf file; needs the extra plots", "FILE")
MODEL_NAME = partial(_output, "name of the model in the results (default: its own)", "NAME")
NO_TEXT = partial(_output, "leave out the texts, so the rows can be published", default=False)
PREFIX = partial(_output, "prefix for the names of new columns (default: none)", default="")
QUIET = partial(_output, "print only results and errors: no cost, bar or notes", default=False)
SEED = partial(option, "seed of all random choices (default: {default})", "N", default=0)


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The model of a command, and the way to load it."""

    GROUP = "model"

    model: str = MODEL()
    revision: str | None = option("branch, tag or commit of a Hub model")
    trust_remote_code: bool = option("run code from the model's repository", default=False)
    allow_pickle: bool = option("accept weights that are not safetensors", default=False)
    mask_id: int | None = option(
        "id that stands for a blank, where the tokenizer has no mask token", "ID"
    )
    shift: bool = option(
        "the model predicts token i at position i-1, as Dream and MNTP models do", default=False
    )
    time: str | None = option(
        "argument of the model that gets the share of masks in a text, from 0 to 1", "NAME"
    )


@dataclass(frozen=True, kw_only=True)
class RunningOptions(ModelOptions):
    """The way to run the model of a command."""

    GROUP = RUNNING

    device: str | None = option("cpu, cuda, cuda:1, ... (default: a GPU if there is one)")
    dtype: str = option(
        "float32, bfloat16 or float16 (default: {default}); docs/results/numerics.md has what half "
        "precision costs",
        default="float32",
    )
    batch_size: int | None = option(
        "inputs that the model runs at once (default: what suits the device)", "N"
    )

    def source(self) -> "ModelSource":
        """The place of the model, and the way to load it."""
        from unmask.jobs.model_source import ModelSource

        same = ("device", "dtype", "revision", "trust_remote_code", "allow_pickle")
        model_options = {name: getattr(self, name) for name in (*same, "mask_id", "time")}
        # a flag that is not given leaves the preset of the model
        return ModelSource(place=self.model, shift=self.shift or None, **model_options)

    def settings(self, **tables: Any) -> "Settings":
        """The settings to run it with; commands print costs themselves."""
        from unmask.settings import Settings

        # a command that has no such option shows no bars
        progress = False if getattr(self, "quiet", True) else None
        return Settings(batch_size=self.batch_size, progress=progress, announce=False, **tables)


@dataclass(frozen=True, kw_only=True)
class TableOptions(RunningOptions):
    """The way to keep the tables of a model."""

    GROUP = RUNNING

    memory_limit: str = option(
        "memory for tables, such as 500MB; larger ones are recomputed (default: {default})",
        "SIZE",
        default="4GB",
    )
    half_tables: bool = option(
        "let ag and the stationary law read tables in bfloat16: half the memory, probabilities "
        "rounded by up to 0.4%",
        default=False,
    )

    def settings(self, **tables: Any) -> "Settings":
        """The settings to run it with."""
        plain = self.memory_limit.strip().upper()
        unit = next((unit for unit in _UNITS if plain.endswith(unit)), "")
        try:
            limit = int(float(plain.removesuffix(unit)) * _UNITS.get(unit, 1))
        except (ValueError, OverflowError):
            wrong = f"a size such as 500MB or 8GB, not {quoted(self.memory_limit)}"
            raise UnmaskError(f"--memory-limit takes {wrong}") from None
        tables |= {"memory_limit": limit, "half_tables": self.half_tables}
        return super().settings(**tables)


@dataclass(frozen=True, kw_only=True)
class CorpusOptions:
    """The part of a corpus that is read."""

    GROUP = INPUT

    column: tuple[str, ...] = option(
        "column that holds the sentences; repeat it for several", "NAME", default=()
    )
    split: str | None = option("split of a dataset (default for snli and xsum: test)")
    config: str | None = option("configuration of a dataset")
    corpus_revision: str | None = option("version of a dataset", "REVISION")
    input_format: str | None = INPUT_FORMAT()

    def spec(self, place: str) -> "CorpusSpec":
        """A corpus as the options name it."""
        from unmask.records.corpora import CorpusSpec

        return CorpusSpec(
            place=place,
            columns=self.column,
            split=self.split,
            config=self.config,
            revision=self.corpus_revision,
            format=self.input_format,
        )


@dataclass(frozen=True, kw_only=True)
class MethodOptions:
    """The options of the constructions of a command, as they declare them."""

    construction_options: Mapping[str, object] = declared_by(partial(method_options, in_fill=False))

    def given(self, named: Sequence[str]) -> dict[str, dict[str, object]]:
        """The options that were given, by method; raises on one that no method here takes."""
        from unmask.constructions import check_options

        every, by_method = self.construction_options, dict[str, dict[str, object]]()
        for method, entry in METHODS.items():
            if values := {name: every[name] for name in entry.options if name in every}:
                check_options(method if method in named or "all" in named else named[0], values)
                by_method[method] = values
        return by_method


@dataclass(frozen=True, kw_only=True)
class Estimation:
    """The precision of two blanks over a vocabulary, if they are estimated."""

    GROUP = "estimate"

    exact: bool = option(
        "run every token of the vocabulary; otherwise two blanks over more than 500 tokens are "
        "estimated from at most 2,000 forward passes, by mlm, log-pool and orders",
        default=False,
    )
    precision: float | None = option(
        "estimate until the standard error of log-probabilities is below this (default: 0.05)",
        "NATS",
    )
    max_passes: int | None = option("most forward passes of an estimate (default: 2000)", "N")
    seed: int = SEED()

    def axes(self, given: Sequence[str] = (), seed: int = 0) -> "Axes":
        """The support: tokens `given` for all blanks or for each, or the sketch that finds them."""
        aims = {"precision": self.precision, "max_passes": self.max_passes}
        requests = {"support": given or None, **aims, "exact": self.exact or None}
        exclusive = [name for name, value in requests.items() if value is not None]
        if len(exclusive) > 1 and exclusive != [*aims]:
            raise UnmaskError(f"{' and '.join(exclusive)} exclude each other; give one of them")
        if self.exact:
            return "vocabulary"
        if given:
            return by_blank(given, "--support", candidates)
        aims |= {"seed": seed or None}
        values: dict[str, Any] = {name: aim for name, aim in aims.items() if aim is not None}
        if not values:
            return "auto"
        from unmask.settings import Sketch

        return Sketch(**values)


def methods(named: Sequence[str], every: Sequence[str] | None = None) -> list[str]:
    """The constructions of an option, each once; `every` is what `all` stands for."""
    from unmask.constructions import CONSTRUCTIONS, method_name

    names: list[str] = []
    for name in named:
        names += (every or CONSTRUCTIONS) if name.lower() == "all" else [method_name(name)]
    return list(dict.fromkeys(names))


def columns(option: str, text: str, example: str, *, least: int = 0) -> tuple[str, ...]:
    """The names of different columns, as many as in the example, or at least so many."""
    names, most = tuple(name.strip() for name in text.split(",")), example.count(",") + 1
    if not (least or most) <= len(set(names)) == len(names) <= most or not all(names):
        raise UnmaskError(f"{option} takes columns, as {example}, not {quoted(text)}")
    return names


def by_blank(
    given: Sequence[str], option: str, read: "Callable[[str], Value]"
) -> "Value | dict[int, Value]":
    """An option that was given once for all blanks, or once per blank, as BLANK=VALUE."""
    parts = [_BLANK.fullmatch(text) for text in given]
    values = {int(part[1]): read(part[2]) for part in parts if part is not None}
    if None not in parts and len(values) == len(given):
        return values
    if len(given) == 1:
        return read(given[0])
    raise UnmaskError(
        f"{option} is given once for all blanks, or once for each, as {option} 0=... "
        f"{option} 1=..., not as {' and '.join(map(quoted, given[:4]))}"
    )


def say(line: str) -> None:
    """Print a line beside the data."""
    print(f"unmask: {printable(line)}", file=sys.stderr)


def say_written(place: str) -> None:
    """Print that a file was written."""
    print(f"wrote {quoted(place, limit=150)}", file=sys.stderr)


def save_figure(figure: "Figure", place: str, *, quiet: bool) -> None:
    """Write a figure, and say so."""
    saving.save_figure(figure, place)
    if not quiet:
        say_written(place)


def check_figure(place: str) -> None:
    """Raise where a figure cannot be drawn into a file, before anything runs."""
    saving.check_ending(place)
    check_place("--figure", place)
    saving.library("matplotlib.figure")


def as_json(lm: "LanguageModel", **values: object) -> str:
    """The results of a command by a model, as JSON."""
    model = {"model": lm.name, "revision": lm.revision}
    return json.dumps({**model, **values}, indent=2, allow_nan=False)


def reject(command: object, names: Iterable[str], why: str) -> None:
    """Raise where one of some options was given, and say why it has no place."""
    for name in names:
        value = getattr(command, name)
        # a number that is zero was given
        if value not in (None, (), "") and value is not False:
            flag = "INPUT" if name == "input" else f"--{name.replace('_', '-')}"
            raise UnmaskError(f"{flag} {why}")


def check_place(option: str, place: str | None, *, is_folder: bool = False) -> None:
    """Raise where a file cannot be written, or would destroy a part of a job's folder."""
    if place is None:
        return
    path, location = Path(place), quoted(place, limit=150)
    parent = path if os.path.exists(path) else path.resolve().parent
    if not is_folder and (os.path.isdir(path) or not os.access(parent, os.W_OK)):
        raise UnmaskError(
            f"cannot write {location}: give a file in a folder that exists and can be written to"
        )
    for part in (path.resolve(), *path.resolve().parents):
        is_of_job = part.name.startswith(("_plan", "_lock-", "_part-", "part-"))
        if is_of_job and (part.parent / "_plan.json").is_file():
            raise UnmaskError(
                f"{option} {location} belongs to the job "
                f"{quoted(str(part.parent), limit=150)} and would be lost; give another place"
            )
