"""Errors of the library in the words of the command line: `--support 5` for `support=5`."""

import re

# what an argument of the library is called as an option
_OPTIONS = {
    "allow_pickle": "--allow-pickle",
    "blanks": "--blank",
    "columns": "--column",
    "format": "--corpus-format",
    "method": "--method",
    "piece_prior": "--piece-prior",
    "split": "--split",
    "support": "--support",
    "targets": "--targets",
}
_ARGUMENT = re.compile(rf"\b({'|'.join(_OPTIONS)})=(True\b)?(?=(\S?))")
_PRIOR = re.compile(r"\bpiece_prior=\{([^}]*)\}")
_SPAN = re.compile(r"\((-?\d+), (-?\d+)\)")
# what a caller wrote stands in quotes, and stays as it is; an apostrophe follows a letter
_QUOTED = re.compile(r"""((?<!\w)'(?:[^'\\]|\\.)*'(?!\w)|(?<!\w)"(?:[^"\\]|\\.)*"(?!\w))""")


def in_options(said: str) -> str:
    """The sentence with options, and spans as `2:5`, where it names arguments and tuples."""
    parts = _QUOTED.split(said)
    whole = "".join(part if k % 2 else _reworded(part) for k, part in enumerate(parts))
    # an option at the very end has no value to stand apart from
    return whole.rstrip()


def _reworded(said: str) -> str:
    said = _PRIOR.sub(lambda found: f"--piece-prior {found[1].replace(': ', '=')}", said)
    said = re.sub(r"(?<=\d), (?=\d+=)", ",", said)
    said = _ARGUMENT.sub(_option, said)
    said = said.replace("raise memory_limit", "raise --memory-limit")
    return _SPAN.sub(r"\1:\2", said)


def _option(found: "re.Match[str]") -> str:
    has_value = found[2] is None and (found[3].isalnum() or found.end() == len(found.string))
    return _OPTIONS[found[1]] + (" " if has_value else "")
