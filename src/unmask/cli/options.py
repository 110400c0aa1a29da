"""Options that several commands share: which model, how it is run, and which joints."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from unmask.cli.command import Option, declared_by, option, required
from unmask.errors import ClozeError, MethodError, UnmaskError
from unmask.names import DEFAULT_METHOD, METHODS, SUPPORTS
from unmask.printable import printable, quoted
from unmask.text.typed import blank as blank
from unmask.text.typed import candidates
from unmask.text.typed import support as support

if TYPE_CHECKING:
    from unmask.corpora import CorpusSpec
    from unmask.jobs.model_source import ModelSource
    from unmask.language_model import Axes, LanguageModel
    from unmask.settings import Settings

Group = argparse._ArgumentGroup
Value = TypeVar("Value")
# digits, for tokens and words may hold an equals sign too
_BLANK = re.compile(r"([0-9]{1,9})=(.*)", re.DOTALL)
NAMED = ", ".join(SUPPORTS)
_UNITS = {"TB": 10**12, "GB": 10**9, "MB": 10**6, "KB": 10**3, "B": 1}


_METHOD = (
    f"{', '.join(METHODS)}, all, or package.module:function of your own; separate several with "
    "commas (default: {default})"
)
SUPPORT = (
    f"tokens that a blank may hold: {NAMED}, or tokens separated by commas, such as man,woman; a "
    "single token ends with a comma{also} (default: {{default}})"
)


def method_options_of(*, in_fill: bool) -> dict[str, tuple[type, Option]]:
    """The options that constructions declare; those of `unmask fill` alone come last."""
    every = [(method, *one) for method, known in METHODS.items() for one in known.options.items()]
    return {
        name: (one.type, Option(f"{method}: {one.help}", one.metavar, choices=one.choices))
        for method, name, one in sorted(every, key=lambda known: known[2].in_fill)
        if in_fill or not one.in_fill
    }


# options that commands share, each a field
MODEL = partial(
    required,
    "masked language model: a name on the Hugging Face Hub, or a folder",
    short="-m",
)
QUIET = partial(option, "print no cost, no progress bar and no closing line", default=False)


@dataclass(frozen=True, kw_only=True)
class Running:
    """How the model of a command is loaded and run, and its tables kept if it has any."""

    GROUP = "running"

    device: str | None = option("cpu, cuda, cuda:1, ... (default: a GPU if there is one)")
    dtype: str = option(
        "float32, bfloat16 or float16 (default: {default}); docs/results/numerics.md shows how "
        "much accuracy half precision costs",
        default="float32",
    )
    revision: str | None = option("branch, tag or commit of a Hub model")
    batch_size: str = option(
        "inputs that the model runs at once; auto tries several sizes in long runs (default: "
        "{default})",
        "N|auto",
        default="auto",
    )
    memory_limit: str = option(
        "memory for V x V tables, such as 500MB; larger tables are recomputed in tiles (default: "
        "{default})",
        "SIZE",
        default="4GB",
    )
    half_tables: bool = option(
        "let solvers read tables in bfloat16: half the memory, probabilities rounded by up to 0.4%",
        default=False,
    )
    trust_remote_code: bool = option("run code from the model's repository", default=False)
    allow_pickle: bool = option("accept weights that are not safetensors", default=False)

    def source(self, model: str) -> "ModelSource":
        """Where a model is, and how it is loaded."""
        from unmask.jobs.model_source import ModelSource

        named = ("device", "dtype", "revision", "trust_remote_code", "allow_pickle")
        return ModelSource(place=model, **{name: getattr(self, name) for name in named})

    def load(self, model: str) -> "LanguageModel":
        """A model, by its name or folder."""
        return self.source(model).load()

    def settings(self, *, progress: bool | None = None) -> "Settings":
        """How it is run; commands print costs themselves."""
        return settings(self, progress=progress)


# what a command without tables leaves out
TABLES = ("memory_limit", "half_tables")


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """What of a corpus is read."""

    GROUP = "corpus"

    column: tuple[str, ...] = option(
        "column that holds the sentences; repeat the option for several columns",
        "NAME",
        default=(),
    )
    split: str | None = option("split of a dataset (default for snli and xsum: test)")
    config: str | None = option("configuration of a dataset")
    corpus_revision: str | None = option("version of a dataset", "REVISION")
    corpus_format: str | None = option(
        "txt, jsonl, tsv or csv: format of standard input (default: txt), or of a file whose name "
        "does not show it",
        "FORMAT",
    )

    def spec(self, place: str) -> "CorpusSpec":
        """A corpus as the options name it."""
        from unmask.corpora import CorpusSpec

        return CorpusSpec(
            place=place,
            columns=self.column,
            split=self.split,
            config=self.config,
            revision=self.corpus_revision,
            format=self.corpus_format,
        )


@dataclass(frozen=True, kw_only=True)
class Methods:
    """The constructions of a command, and their options as they declare them."""

    GROUP = "construction"

    method: tuple[str, ...] = option(_METHOD, "NAME", default=(DEFAULT_METHOD,))
    options: Mapping[str, object] = declared_by(partial(method_options_of, in_fill=False))

    def names(self, every: Sequence[str] | None = None) -> list[str]:
        """The constructions that were named, each once; `every` is what `all` stands for."""
        return methods(self, every=every)

    def given(self, named: list[str]) -> dict[str, dict[str, object]]:
        """The options that were given, by method; raises on one that no method here takes."""
        return _by_method(self.options, named)


@dataclass(frozen=True, kw_only=True)
class Joints(Methods):
    """The same, and the tokens that they range over."""

    support: str = option(SUPPORT.format(also=""), "NAME|TOKENS", default="vocabulary")


def add_model(parser: argparse.ArgumentParser) -> None:
    """The model of a command."""
    parser.add_argument(
        "-m",
        "--model",
        required=True,
        help="masked language model: a name on the Hugging Face Hub, or a folder",
    )


def add_joints(
    parser: argparse.ArgumentParser,
    default: str = "log-pool",
    *,
    support: str = "vocabulary",
    also: str = "",
) -> Group:
    """The joints of a command, and the tokens that they range over; `also` goes into the help."""
    group = add_methods(parser, default)
    group.add_argument(
        "--support",
        default=support,
        metavar="NAME|TOKENS",
        help=f"tokens that a blank may hold: {NAMED}, or tokens separated by commas, such as "
        f"man,woman; a single token ends with a comma{also} (default: {support})",
    )
    return group


def add_methods(parser: argparse.ArgumentParser, default: str, *, in_fill: bool = False) -> Group:
    """The constructions of a command and their options, in a group that is returned."""
    group = parser.add_argument_group("construction")
    group.add_argument(
        "--method", action="append", metavar="NAME", help=_METHOD.replace("{default}", default)
    )
    for name, (kind, one) in method_options_of(in_fill=in_fill).items():
        flag = f"--{name.replace('_', '-')}"
        group.add_argument(flag, type=kind, metavar=one.metavar, help=one.help, choices=one.choices)
    return group


def add_support_by_blank(group: Group) -> None:
    """The tokens of blanks, for all alike or for each, or how many the model is to propose."""
    group.add_argument(
        "--support",
        action="append",
        metavar="[BLANK=]CANDIDATES",
        help=f"tokens that a blank may hold: {NAMED}, a number of candidates that the model "
        "proposes, tokens separated by commas, such as man,woman (a single token ends with a "
        "comma), or auto: the whole vocabulary for one or two blanks, otherwise as many candidates "
        "as a few thousand forward passes allow. To give blanks different tokens, repeat the "
        "option: 0=man,woman and 1=20, counting blanks from 0 (default: auto)",
    )
    add_precision(group)


def add_precision(group: Group) -> None:
    """How near two blanks over a vocabulary are estimated, or that they are not estimated."""
    group.add_argument(
        "--precision",
        type=float,
        metavar="NATS",
        help="two blanks over the whole vocabulary are estimated from a few hundred forward "
        "passes: as many as it takes to bring the standard error of log-probabilities below this "
        "(default: 0.05)",
    )
    group.add_argument(
        "--exact",
        action="store_true",
        help="run every token of the vocabulary instead, as in the paper",
    )


def add_running(parser: argparse.ArgumentParser, *, tables: bool = True) -> Group:
    """How the model of a command is loaded and run, and its `tables` kept if it has any."""
    group = parser.add_argument_group("running")
    add = group.add_argument
    add("--device", help="cpu, cuda, cuda:1, ... (default: a GPU if there is one)")
    add(
        "--dtype",
        default="float32",
        help="float32, bfloat16 or float16 (default: float32); docs/results/numerics.md shows "
        "how much accuracy half precision costs",
    )
    add("--revision", help="branch, tag or commit of a Hub model")
    add(
        "--batch-size",
        default="auto",
        metavar="N|auto",
        help="inputs that the model runs at once; auto tries several sizes in long runs "
        "(default: auto)",
    )
    if tables:
        add(
            "--memory-limit",
            metavar="SIZE",
            help="memory for V x V tables, such as 500MB; larger tables are recomputed in tiles "
            "(default: 4GB)",
        )
        add(
            "--half-tables",
            action="store_true",
            help="let solvers read tables in bfloat16: half the memory, probabilities rounded by "
            "up to 0.4%%",
        )
    parser.set_defaults(memory_limit="4GB", half_tables=False)
    add("--trust-remote-code", action="store_true", help="run code from the model's repository")
    add("--allow-pickle", action="store_true", help="accept weights that are not safetensors")
    return group


def add_loading(parser: argparse.ArgumentParser) -> Group:
    """How the model of a command that trains it is loaded: in float32, and without tables."""
    group = parser.add_argument_group("running")
    add = group.add_argument
    add("--device", help="cpu, cuda, cuda:1, ... (default: a GPU if there is one)")
    add("--revision", help="branch, tag or commit of a Hub model")
    add("--trust-remote-code", action="store_true", help="run code from the model's repository")
    add("--allow-pickle", action="store_true", help="accept weights that are not safetensors")
    parser.set_defaults(dtype="float32")
    return group


def add_corpus(parser: argparse.ArgumentParser) -> None:
    """What of a corpus is read."""
    add = parser.add_argument_group("corpus").add_argument
    add(
        "--column",
        action="append",
        metavar="NAME",
        help="column that holds the sentences; repeat the option for several columns",
    )
    add("--split", help="split of a dataset (default for snli and xsum: test)")
    add("--config", help="configuration of a dataset")
    add("--corpus-revision", metavar="REVISION", help="version of a dataset")
    add(
        "--corpus-format",
        metavar="FORMAT",
        help="txt, jsonl, tsv or csv: format of standard input (default: txt), or of a file "
        "whose name does not show it",
    )


def corpus_spec(chosen: argparse.Namespace, place: str) -> "CorpusSpec":
    """A corpus as the options name it."""
    from unmask.corpora import CorpusSpec

    return CorpusSpec(
        place=place,
        columns=tuple(chosen.column or ()),
        split=chosen.split,
        config=chosen.config,
        revision=chosen.corpus_revision,
        format=chosen.corpus_format,
    )


def load_model(chosen: argparse.Namespace) -> "LanguageModel":
    """The model that the options name."""
    return model_source(chosen).load()


def model_name(place: str) -> str:
    """A hub name as it is; of a folder the last part, since the rest is of one machine alone."""
    folder = os.path.expanduser(place)
    return Path(folder).resolve().name if os.path.isdir(folder) else place


def model_source(chosen: argparse.Namespace) -> "ModelSource":
    """Where that model is, and how it is loaded."""
    from unmask.jobs.model_source import ModelSource

    named = ("device", "dtype", "revision", "trust_remote_code", "allow_pickle")
    return ModelSource(place=chosen.model, **{name: getattr(chosen, name) for name in named})


def settings(chosen: Any, *, progress: bool | None = None) -> "Settings":
    """How the options say that a model is run; commands print costs themselves."""
    from unmask.settings import Settings

    return Settings(
        batch_size=_batch_size(chosen.batch_size),
        memory_limit=_bytes(chosen.memory_limit),
        half_tables=chosen.half_tables,
        progress=progress,
        announce=False,
    )


def methods(
    chosen: Any, default: str = DEFAULT_METHOD, *, every: Sequence[str] | None = None
) -> list[str]:
    """The constructions that were named, each once; `every` is what `all` stands for."""
    from unmask.constructions import CONSTRUCTIONS, method_name

    found: list[str] = []
    for name in listed(chosen.method, default):
        found += (every or CONSTRUCTIONS) if name.lower() == "all" else [method_name(name)]
    return list(dict.fromkeys(found))


def one_method(chosen: Any, name: str, default: str = DEFAULT_METHOD) -> str:
    """The one construction of a command or option that takes no more, by its `name`."""
    first, *others = methods(chosen, default)
    if others:
        named = ", ".join([first, *others])
        raise MethodError(f"{name} takes one --method, not {1 + len(others)}: {named}")
    return first


def listed(given: Sequence[str] | None, default: str = "") -> list[str]:
    """The names of an option that may be repeated, and takes several with commas; each once."""
    names = [name.strip() for names in given or [default] for name in names.split(",")]
    return list(dict.fromkeys(names))


def method_options(chosen: argparse.Namespace, named: list[str]) -> dict[str, dict[str, object]]:
    """The options that were given, by method; raises on one that no method here takes."""
    return _by_method(vars(chosen), named)


def _by_method(given: Mapping[str, object], named: list[str]) -> dict[str, dict[str, object]]:
    from unmask.constructions import check_options

    found = {}
    for method, known in METHODS.items():
        values = {name: given.get(name) for name in known.options}
        found[method] = {name: value for name, value in values.items() if value is not None}
        check_options(method if method in named else named[0], found[method])
    return found


def support_by_blank(chosen: argparse.Namespace) -> "Axes":
    """What `add_support_by_blank` was given."""
    named = {
        "--support": chosen.support,
        "--precision": chosen.precision,
        "--exact": chosen.exact or None,
    }
    if len(given := [name for name, value in named.items() if value is not None]) > 1:
        raise UnmaskError(f"{' and '.join(given)} exclude each other; give one of them")
    if chosen.precision is not None:
        from unmask.settings import Sketch

        return Sketch(precision=chosen.precision)
    if chosen.exact:
        return "vocabulary"
    return "auto" if chosen.support is None else by_blank(chosen.support, "--support", candidates)


def by_blank(
    given: list[str], option: str, read: "Callable[[str], Value]"
) -> "Value | dict[int, Value]":
    """An option that was given once for all blanks, or once per blank, as BLANK=VALUE."""
    parts = [_BLANK.fullmatch(text) for text in given]
    found = {int(part[1]): read(part[2]) for part in parts if part is not None}
    if None not in parts and len(found) == len(given):
        return found
    if len(given) == 1:
        return read(given[0])
    raise UnmaskError(
        f"{option} is given once for all blanks, or once for each, as {option} 0=... "
        f"{option} 1=..., not as {' and '.join(map(quoted, given[:4]))}"
    )


def say(line: str) -> None:
    """Print a line beside the data."""
    print(f"unmask: {printable(line)}", file=sys.stderr)


def read_stdin(what: str) -> str:
    """All of standard input, which holds `what`."""
    if sys.stdin is None:
        raise ClozeError(f"there is no stdin to read {what} from")
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise ClozeError(
            f"stdin holds {what}, but is not {error.encoding}: byte {error.start} cannot be decoded"
        ) from None


def check_choice(option: str, value: str, allowed: Sequence[str]) -> None:
    """Raise, in one line, where a value is not among those that there are."""
    if value not in allowed:
        raise UnmaskError(f"{option} is one of {', '.join(allowed)}, not {quoted(value)}")


def check_file(option: str, place: str | None, *, source: str | None = None) -> None:
    """Raise where a file cannot be written, or is the `source` or a part of an evaluation."""
    if place is None:
        return
    path, shown = Path(place), quoted(place, limit=150)
    exists = os.path.exists(path)
    if os.path.isdir(path) or not os.access(path if exists else path.resolve().parent, os.W_OK):
        raise UnmaskError(
            f"cannot write {shown}: give a file in a folder that exists and can be written to"
        )
    if exists and source and os.path.exists(source) and os.path.samefile(source, path):
        raise UnmaskError(
            f"{option} {shown} is the input too, and would be lost; give another file"
        )
    check_no_run(option, place)


def check_no_run(option: str, place: str | None) -> None:
    """Raise where writing would destroy a part of a job's folder: its plan or its rows."""
    path = None if place is None else Path(place).resolve()
    for one in () if path is None else (path, *path.parents):
        is_own = one.name.startswith(("_plan", "_locks", "_manifest", "part-"))
        if is_own and (one.parent / "_plan.json").is_file():
            raise UnmaskError(
                f"{option} {quoted(place, limit=150)} belongs to the job "
                f"{quoted(str(one.parent), limit=150)} and would be lost; give another place"
            )


def _batch_size(text: str) -> int | None:
    try:
        return None if text == "auto" else int(text)
    except ValueError:
        raise UnmaskError(
            f"--batch-size takes a number from 1 or auto, not {quoted(text)}"
        ) from None


def _bytes(text: str) -> int:
    plain = text.strip().upper()
    unit = next((unit for unit in _UNITS if plain.endswith(unit)), "")
    try:
        return int(float(plain.removesuffix(unit)) * _UNITS.get(unit, 1))
    except (ValueError, OverflowError):
        raise UnmaskError(
            f"--memory-limit takes a size such as 500MB or 8GB, not {quoted(text)}"
        ) from None
