"""Words that a caller wants tried, by blank, from the ways in which they may be written."""

from collections.abc import Mapping, Sequence
from typing import Any

from unmask.errors import SupportError
from unmask.numbers import whole_number
from unmask.printable import quoted

# words for a blank: the same for all, a list for each, or by blank
Targets = str | Sequence[str] | Sequence[Sequence[str]] | Mapping[int, Sequence[str]]


def targets_by_blank(targets: object, blanks: int) -> dict[int, list[str]]:
    """Words by blank, from what a caller wrote: one list for all blanks, a list each, or by blank.

    Blanks that are not named are not in it.
    """
    if isinstance(targets, str):
        targets = [targets]
    if isinstance(targets, Mapping) and targets:
        _check_blanks(targets, blanks)
        return {int(blank): _words(words) for blank, words in targets.items()}
    if isinstance(targets, bytes) or not isinstance(targets, Sequence) or not targets:
        raise SupportError(f"targets is a list of words, or one a blank, not {quoted(targets)}")
    if all(isinstance(one, str) for one in targets):
        return {blank: list(targets) for blank in range(blanks)}
    for one in targets:
        if one is not None and (isinstance(one, str | bytes) or not isinstance(one, Sequence)):
            raise SupportError(
                f"targets is a list of words, or a list of words a blank; {quoted(one)} is neither"
            )
    if len(targets) != blanks:
        raise SupportError(f"targets has {len(targets)} lists; the text has {blanks} blanks")
    return {blank: _words(words) for blank, words in enumerate(targets) if words is not None}


def _check_blanks(targets: Mapping[Any, object], blanks: int) -> None:
    for blank in targets:
        if whole_number(blank) not in range(blanks):
            raise SupportError(
                f"targets name blank {quoted(blank)}; this text has blanks 0 to {blanks - 1}"
            )


def _words(words: object) -> list[str]:
    if isinstance(words, str):
        return [words]
    if not isinstance(words, Sequence) or not words:
        raise SupportError(f"the targets of a blank are a list of words, not {quoted(words)}")
    return list(words)
