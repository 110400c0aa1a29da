"""Tokens and texts made safe to show: control characters escaped, columns aligned.

Every token that is shown goes through here. Nothing is interpreted as markup:
`[unused1]` and `[/x]` come out as they are.
"""

import unicodedata
from collections.abc import Iterable

_LONGEST_ERROR = 300


def printable(text: str) -> str:
    r"""Escape what a terminal would act on or not show: a newline becomes `\n`.

    That is all that Unicode counts as "other" (controls, right-to-left overrides, zero-width
    joiners, lone surrogates, private use) and every separator but the plain space.
    """
    if text.isprintable():
        return text
    return "".join(ch if ch.isprintable() else ch.encode("unicode_escape").decode() for ch in text)


def quoted(text: object, limit: int = 60) -> str:
    """A value for an error message: quoted, escaped, shortened in its middle."""
    words = text if isinstance(text, str) else _shown(text)
    if len(words) > limit:
        # the end of a path matters most
        words = words[: (limit - 3) // 2] + "..." + words[-(limit - 2) // 2 :]
    return f"'{printable(words)}'" if isinstance(text, str) else printable(words)


def describe(error: BaseException) -> str:
    """An error in one line."""
    message = " ".join(str(error).split())
    description = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return printable(description)[:_LONGEST_ERROR]


def width(text: str) -> int:
    """The number of terminal cells that a text takes: wide characters two, combining ones none."""
    return sum(_cells(ch) for ch in text)


def pad(text: str, cells: int) -> str:
    """Fill with spaces on the right up to a width in terminal cells."""
    return text + " " * max(0, cells - width(text))


def columns(rows: list[list[str]], gap: str = "  ") -> str:
    """Align rows of cells into a plain text table."""
    widths = [max(width(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        gap.join(pad(cell, cells) for cell, cells in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def listed(parts: Iterable[object]) -> str:
    """Parts of a sentence: a, b and c."""
    *most, last = map(str, parts)
    return f"{', '.join(most)} and {last}" if most else last


def readable_bytes(count: float) -> str:
    """A number of bytes, readable: 1.2 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def readable_seconds(seconds: float) -> str:
    """A duration, readable: 40 s, 5 min, 3.2 h."""
    if seconds < 1:
        return "under 1 s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} days"


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # Python writes out no integer beyond 4300 digits, nor endless nesting
        return f"<{type(value).__name__} that cannot be shown>"


def _cells(ch: str) -> int:
    # by category: vowel signs and variation selectors have no combining class, nor a cell
    if unicodedata.category(ch) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(ch) in ("W", "F") else 1
