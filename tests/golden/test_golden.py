"""What every command and row function answers today, held in one transcript per command.

A transcript (`*.golden`) is a list of cases. A case has a name and commands; below each command is
what came of it. `pytest tests/golden --update-golden` writes what comes of them now.

    == a name
    $ unmask score texts.txt -m bert     a command, run in this process, in a folder of its own that
                                         holds a copy of inputs/ and the models bert, other, esm
    $ unmask fill - -m bert < one.txt    the same with standard input
    $ unmask score texts.txt -m bert | cat     the same, whose standard output is no terminal
    $ stop 3 unmask score ...            the same, interrupted at the third forward pass
    $ write FILE 'a line\n'              other verbs: append, cut (bytes off the end), edit, remove
    >>> bert.score(["the cat."])  an expression of Python, with the names of `unmask`
      standard output, or the value
    ! standard error, or the exception
    + a file that was written or changed, below it its lines; of Parquet its columns and rows
    - a file that was removed
    [exit 2]

Numbers are written with six significant digits and compared with a tolerance, since machines
differ in the last ones. Hashes, durations and versions are left out.
"""

import contextlib
import difflib
import io
import json
import re
import shlex
import shutil
import sys
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import tiny_models
import torch
from read_once import reading_once

import unmask
import unmask.cli
from unmask.constructions.registered import REGISTERED

HERE = Path(__file__).parent
MODELS = ("bert", "other", "esm", "roberta")
# files of which the name is held, not the content: pictures, weights, hashes of everything
NAME_ONLY = {".svg", ".png", ".pdf", ".safetensors", ".lock", ".pt", ".partial-plan"}
RELATIVE, ABSOLUTE = 1e-5, 2e-6


# --- transcripts -------------------------------------------------------------------------------


@dataclass
class Case:
    """Commands and what came of each, by line."""

    name: str
    steps: list[tuple[str, list[str]]] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"== {self.name}"]
        for command, answer in self.steps:
            lines += [command, *answer]
        # an empty line at the end of a case parts it from the next
        return "\n".join(lines).rstrip("\n") + "\n"


@dataclass
class Transcript:
    """The cases of a file."""

    path: Path
    head: list[str]
    cases: list[Case]

    @classmethod
    def read(cls, path: Path) -> "Transcript":
        found = cls(path, [], [])
        for line in path.read_text(encoding="utf-8").split("\n"):
            if line.startswith("== "):
                found.cases.append(Case(line[3:]))
            elif not found.cases:
                found.head.append(line)
            elif line.startswith(("$ ", ">>> ", "# ")):
                found.cases[-1].steps.append((line, []))
            elif found.cases[-1].steps:
                found.cases[-1].steps[-1][1].append(line)
        return found

    def write(self) -> None:
        text = "\n".join(self.head).rstrip("\n") + "\n\n" if any(self.head) else ""
        self.path.write_text(text + "\n".join(map(str, self.cases)), encoding="utf-8")


TRANSCRIPTS = [Transcript.read(path) for path in sorted(HERE.glob("*.golden"))]
CASES = [
    pytest.param(transcript, case, id=f"{transcript.path.stem}: {case.name}")
    for transcript in TRANSCRIPTS
    for case in transcript.cases
]


@pytest.fixture(scope="module")
def update(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether transcripts are written; they are when all cases have run."""
    wanted: bool = request.config.getoption("--update-golden")
    yield wanted
    for transcript in TRANSCRIPTS if wanted else ():
        transcript.write()


@pytest.mark.slow
@pytest.mark.parametrize(("transcript", "case"), CASES)
def test_the_answer_is_the_one_held(transcript: Transcript, case: Case, session, update: bool):
    run = session()
    now = Case(case.name, [(command, run.answer(command)) for command, _ in case.steps])
    if update:
        case.steps[:] = now.steps
    elif not is_same(str(case), str(now)):
        lines = difflib.unified_diff(
            str(case).split("\n"), str(now).split("\n"), "held", "now", lineterm="", n=2
        )
        why = "\n".join(line for line in lines)
        pytest.fail(
            f"{transcript.path.name}, {case.name}: if the difference is wanted, run pytest "
            f"tests/golden --update-golden and say why in the commit\n{why}",
            pytrace=False,
        )


def test_the_help_of_every_command_is_the_page_of_the_reference():
    import command_help

    written = command_help.words(command_help.PAGE.read_text(encoding="utf-8"))
    now = command_help.words(command_help.page())
    assert written == now, f"docs/reference/commands.md is stale: run {command_help.COMMAND}"


# --- what is compared --------------------------------------------------------------------------

NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+(?:e[-+]?\d+)?|e[-+]?\d+)(?![\w.]*\w)")


def is_same(held: str, now: str) -> bool:
    """The same text, and numbers that are near."""
    if NUMBER.sub("#", held) != NUMBER.sub("#", now):
        return False
    return all(map(_is_near, NUMBER.findall(held), NUMBER.findall(now)))


def _is_near(held: str, now: str) -> bool:
    decimals = len(held.partition(".")[2]) if "e" not in held else 99
    # a number that is shown with few decimals may be rounded to its neighbour
    shown = 1.01 * 10.0**-decimals if 2 <= decimals <= 6 else 0.0
    allowed = max(RELATIVE * abs(float(held)), ABSOLUTE, shown)
    return abs(float(held) - float(now)) <= allowed


def _rounded(match: re.Match[str]) -> str:
    digits = match[0].lstrip("+-").split("e")[0].replace(".", "").lstrip("0")
    return f"{float(match[0]):.6g}" if len(digits) > 6 else match[0]


_DURATION = r"(?:under )?[\d.,]+ ?(?:ms|µs|s|seconds?|minutes?|hours?|days?|years?|min|h)\b"
_LEFT_OUT: list[tuple[str, str]] = [
    # bars of progress
    (r"(?m)^[^\n]*(?:\d%\||\d texts \[\d\d:)[^\n]*(?:\n|\Z)", ""),
    (r"(?<![\w.])(?:[0-9a-f]{16,64}|(?=\d*[a-f])[0-9a-f]{12})(?![\w.])", "<hash>"),
    (r"(?<=(?:part|egun)-\d{6}-)[0-9a-f]{12}", "<hash>"),
    (r"\(Expected one of cpu[^)]*\)", "(<why>)"),
    (rf"(?<=about ){_DURATION}", "<time>"),
    (rf"(?<=forward passes, ){_DURATION}", "<time>"),
    # said only where it is long
    (r"(?<= tokens), (?:up to )?about <time>", ""),
    (r'(?<=seconds": )[\d.e+-]+', "<time>"),
    (rf"\b{re.escape(unmask.__version__)}\b", "<version>"),
    (r"(?<=unmask <version>), torch .*?tokenizers [\d.]*\d", ", <software>"),
]


def _plain(text: str, folder: Path) -> list[str]:
    """Lines with what is of this machine or run left out."""
    text = text.replace("\r", "\n") if "%|" in text else text
    text = text.replace(str(folder), "<here>").replace(str(folder.resolve()), "<here>")
    for pattern, name in _LEFT_OUT:
        text = re.sub(pattern, name, text)
    text = NUMBER.sub(_rounded, text)
    return [_printable(line) for line in text.removesuffix("\n").split("\n")] if text else []


def _printable(line: str) -> str:
    return "".join(
        c.encode("unicode_escape").decode() if unicodedata.category(c)[0] == "C" else c
        for c in line
    )


# --- a folder in which commands run ------------------------------------------------------------


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny models in folders; `other` is `bert` with other weights."""
    folder = tmp_path_factory.mktemp("models")
    for name in ("bert", "esm", "roberta"):
        tiny_models.saved(name, folder / name)
    model, tokenizer = tiny_models.build("bert")
    with torch.no_grad():
        model.get_output_embeddings().bias.add_(torch.arange(len(tokenizer)) % 3)
    for part in (model, tokenizer):
        part.save_pretrained(folder / "other")
    return folder


@pytest.fixture(scope="module")
def loaded(models: Path) -> Iterator[Path]:
    """The same; a model that has been loaded once is not read again."""
    with reading_once():
        yield models


@pytest.fixture
def session(
    tmp_path: Path, loaded: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], "Session"]:
    """A folder with the inputs and the models, in which commands run."""
    shutil.copytree(HERE / "inputs", tmp_path, dirs_exist_ok=True)
    _write_parquet(tmp_path)
    for name in MODELS:
        (tmp_path / name).symlink_to(loaded / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    # other tests may have left constructions of their own
    for name in list(REGISTERED):
        monkeypatch.delitem(REGISTERED, name)
    return lambda: Session(tmp_path)


def _write_parquet(folder: Path) -> None:
    """The tables of inputs/ that Parquet files are made of: texts.jsonl and so on."""
    import pyarrow as pa

    for name in ("texts", "pairs", "items", "blanks"):
        lines = (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        pq.write_table(
            pa.Table.from_pylist(list(map(json.loads, lines))), f"{folder}/{name}.parquet"
        )


@dataclass
class Session:
    """Runs the commands of a case, one after the other."""

    folder: Path
    names: dict[str, Any] = field(default_factory=dict)

    def answer(self, line: str) -> list[str]:
        """What comes of a command, as lines of a transcript."""
        if line.startswith("# "):
            return []
        if line.startswith(">>> "):
            return self._evaluated(line[4:])
        words = shlex.split(line[2:])
        if words[0] == "unmask" or words[0] == "stop":
            return self._run(words)
        getattr(self, f"_{words[0]}")(*words[1:])
        return []

    # --- commands

    def _run(self, words: list[str]) -> list[str]:
        stop = int(words[1]) if words[0] == "stop" else None
        words = words[3:] if stop else words[1:]
        given, is_terminal = b"", words[-2:] != ["|", "cat"]
        words = words if is_terminal else words[:-2]
        if "<" in words:
            words, (place,) = words[: words.index("<")], words[words.index("<") + 1 :]
            given = (self.folder / place).read_bytes()
        before = self._files()
        out, err = _stream(), _stream()
        out.isatty = lambda: is_terminal
        with contextlib.ExitStack() as stack:
            stack.enter_context(_streams(_stream(given), out, err))
            stack.enter_context(_fresh_warnings())
            if stop:
                stack.enter_context(_interrupt_at(stop))
            try:
                code: Any = unmask.cli.main(words)
            except SystemExit as ended:
                code = ended.code
        said = _text_of(err)
        if code == 2 and said.startswith("usage: "):
            # versions of Python break lines of the usage elsewhere
            said = said.split("\n")[-2] + "\n"
        lines = [*self._shown("  ", _text_of(out)), *self._shown("! ", said)]
        lines += self._changes(before)
        return [*lines, f"[exit {code}]"] if code else lines

    def _shown(self, mark: str, text: str) -> list[str]:
        return [
            (mark + line).rstrip() if not line else mark + line
            for line in _plain(text, self.folder)
        ]

    def _write(self, place: str, text: str) -> None:
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_unescaped(text))

    def _append(self, place: str, text: str) -> None:
        with (self.folder / place).open("ab") as file:
            file.write(_unescaped(text))

    def _cut(self, pattern: str, count: str) -> None:
        for path in self.folder.glob(pattern):
            path.write_bytes(path.read_bytes()[: -int(count)])

    def _edit(self, place: str, old: str, new: str) -> None:
        path = self.folder / place
        content = path.read_bytes()
        assert _unescaped(old) in content, (place, old)
        path.write_bytes(content.replace(_unescaped(old), _unescaped(new)))

    def _remove(self, place: str) -> None:
        (path,) = self.folder.glob(place)
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    # --- expressions

    def _evaluated(self, line: str) -> list[str]:
        names = self.names
        if not names:
            names.update({name: getattr(unmask, name) for name in unmask.__all__})
            names.update(unmask=unmask, torch=torch, json=json, Path=Path)
            quiet = {"settings": unmask.Settings(progress=False, announce=False)}
            names["quiet"] = quiet["settings"]
        for name in MODELS:
            if re.search(rf"\b{name}\b", line) and name not in names:
                names[name] = unmask.load(name)
        before, out, err = self._files(), _stream(), _stream()
        with _streams(_stream(), out, err), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", unmask.errors.UnmaskWarning)
            try:
                try:
                    value = eval(compile(line, "<golden>", "eval"), names)
                except SyntaxError:
                    exec(compile(line, "<golden>", "exec"), names)
                    value = None
                lines = self._shown("  ", "\n".join(_values(value)))
            except Exception as error:
                lines = self._shown("! ", f"{type(error).__name__}: {error}")
        lines += self._shown("! ", _text_of(err))
        for one in warned:
            if issubclass(one.category, unmask.errors.UnmaskWarning):
                lines += self._shown("! ", f"{one.category.__name__}: {one.message}")
        return [*lines, *self._changes(before)]

    # --- files

    def _files(self) -> dict[str, bytes]:
        found = (path for path in self.folder.rglob("*") if path.is_file())
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in found
            if path.relative_to(self.folder).parts[0] not in MODELS
        }

    def _changes(self, before: dict[str, bytes]) -> list[str]:
        after, lines = self._files(), []
        for name in sorted(before.keys() - after.keys()):
            lines.append(f"- {self._plain_name(name)}")
        for name in sorted(after):
            # a record of a run has times in it: it is held that there is one
            is_named_only = name in before and not _is_data(name) and not name.endswith(".parquet")
            if after[name] != before.get(name) and not is_named_only:
                lines.append(f"+ {self._plain_name(name)}")
                lines += [f"  | {line}".rstrip() for line in self._content(name)]
        return lines

    def _plain_name(self, name: str) -> str:
        return re.sub(r"(?<=\d{6}-)[0-9a-f]{12}|[0-9a-f]{16,64}", "<hash>", name)

    def _content(self, name: str) -> list[str]:
        path = self.folder / name
        if path.suffix == ".parquet":
            return self._table(path)
        if path.suffix in NAME_ONLY or not _is_data(name):
            return []
        return _plain(path.read_bytes().decode("utf-8", "backslashreplace"), self.folder)

    def _table(self, path: Path) -> list[str]:
        table = pq.ParquetFile(path).read()
        named = ", ".join(f"{one.name}: {one.type}" for one in table.schema)
        rows = [
            json.dumps(_of_run_left_out(row), ensure_ascii=False, default=str)
            for row in table.to_pylist()
        ]
        return [line for text in (named, *rows) for line in _plain(text, self.folder)]


# columns and fields of a run or a machine
_OF_RUN = {"seconds", "software", "device", "machine", "host", "written", "started", "time"}


def _of_run_left_out(row: dict[str, Any]) -> dict[str, Any]:
    return {key: "<run>" if key in _OF_RUN else value for key, value in row.items()}


def _is_data(name: str) -> bool:
    """Whether a file is rows or tables, and not the record of a run, of which the name is held."""
    return name.endswith((".csv", ".tsv", ".jsonl", ".txt", ".md", ".tex", ".partial", ".data"))


def _values(value: Any) -> Iterator[str]:
    """A value as lines of JSON."""
    if value is None:
        return
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        for one in value:
            yield from _values(one) if not isinstance(one, list | str) else [_json(one)]
    else:
        yield _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, default=_as_plain, ensure_ascii=False)


def _as_plain(value: Any) -> Any:
    for way in ("to_dict", "_asdict", "tolist"):
        if hasattr(value, way):
            return getattr(value, way)()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return str(value)


def _unescaped(text: str) -> bytes:
    return (
        text.encode("utf-8").decode("unicode_escape").encode("latin-1", "ignore")
        if "\\" in text
        else text.encode()
    )


def _stream(content: bytes = b"") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline="", write_through=True)


def _text_of(stream: io.TextIOWrapper) -> str:
    buffer = stream.buffer
    return buffer.getvalue().decode("utf-8")


@contextlib.contextmanager
def _streams(given: Any, out: Any, err: Any) -> Iterator[None]:
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = given, out, err
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = before


@contextlib.contextmanager
def _fresh_warnings() -> Iterator[None]:
    """As a process begins: each warning is shown once from each place."""
    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", unmask.errors.UnmaskWarning)
        yield


@contextlib.contextmanager
def _interrupt_at(number: int) -> Iterator[None]:
    """Ctrl-C at a forward pass, counted from 1."""
    count, call = 0, torch.nn.Module.__call__

    def counted(self: torch.nn.Module, *args: Any, **options: Any) -> Any:
        nonlocal count
        if type(self).__name__.endswith("ForMaskedLM"):
            count += 1
            if count == number:
                raise KeyboardInterrupt
        return call(self, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.Module, "__call__", counted)
        yield
