"""Small alphabets by name: letters that a model of sequences has one token each for."""

from collections.abc import Iterator

from unmask.errors import SupportError
from unmask.names import ALPHABETS
from unmask.printable import quoted
from unmask.text.support import SPACE_MARKERS, Support, without_space_marker


def places_of_letters(name: str, whole: Support) -> list[int]:
    """The places of the letters of an alphabet in a vocabulary, in the alphabet's order.

    All must be written alike. Upper case goes before lower; a vocabulary that has them all both
    with and without a space before is rejected: guessing would score the wrong ones silently.
    """
    places = {token: len(whole) - 1 - i for i, token in enumerate(reversed(whole.names))}
    for ways in _spellings(ALPHABETS[name]):
        complete = [way for way in ways if all(token in places for token in way)]
        if len(complete) > 1:
            raise SupportError(
                f"this model writes each of {quoted(name)} twice, as {quoted(complete[0][0])} and "
                f"as {quoted(complete[1][0])}; list the tokens that you mean"
            )
        if complete:
            return [places[token] for token in complete[0]]
    raise SupportError(_missing(name, places))


def bare_letter(token: str) -> str:
    """A token without its space marker, in upper case: the letter of a residue."""
    return without_space_marker(token).upper()


def _spellings(letters: str) -> Iterator[list[list[str]]]:
    """The ways to write an alphabet, those that exclude each other together."""
    for cased in dict.fromkeys((letters, letters.lower())):
        yield [[marker + letter for letter in cased] for marker in ("", *SPACE_MARKERS)]


def _missing(name: str, places: dict[str, int]) -> str:
    ways = [way for ways in _spellings(ALPHABETS[name]) for way in ways]
    lacking = [[token for token in way if token not in places] for way in ways]
    fewest = min(lacking, key=len)
    if len(fewest) == len(ALPHABETS[name]):
        return f"this model has no token for any letter of {quoted(name)}: {ALPHABETS[name]}"
    return (
        f"this model has no token for {', '.join(map(quoted, fewest))} of {quoted(name)}; "
        "list the tokens that it has"
    )
