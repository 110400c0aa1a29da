"""Python values of texts that users type as an option of a command or a cell of a table."""

import re

from unmask.errors import SupportError
from unmask.printable import quoted
from unmask.text.spans import Blank


def blank(text: str) -> Blank:
    """The blank that a text names: a word or phrase, a span of characters, or a token's index."""
    if re.fullmatch(r"-?[0-9]{1,9}", text):
        return int(text)
    span = re.fullmatch(r"(-?[0-9]{1,9}):(-?[0-9]{1,9})", text)
    return text if span is None else (int(span[1]), int(span[2]))


def support(text: str) -> str | list[str]:
    """A named support, or a list: one token alone is `token,`, since a bare word is a typo."""
    return [token for token in text.split(",") if token] if "," in text else text


def candidates(text: str) -> int | str | list[str]:
    """A support, or how many candidates the model is to propose."""
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else support(text)


def piece_prior(text: str, name: str) -> str | dict[int, float]:
    """Probabilities of numbers of pieces; `name` is what errors call it."""
    if text == "uniform":
        return text
    try:
        parts = [part.split("=") for part in text.split(",") if part]
        return {int(pieces): float(weight) for pieces, weight in parts}
    except ValueError:
        raise SupportError(
            f"{name} takes uniform, or numbers of pieces with their probabilities, as "
            f"1=0.8,2=0.2, not {quoted(text)}"
        ) from None


def field_value(name: str, value: object) -> object:
    """A value of JSON, or the text of a cell, which is read as an option is."""
    if isinstance(value, dict):
        # the keys of JSON are strings, those of blanks and pieces numbers
        return {int(k) if re.fullmatch("[0-9]{1,9}", k) else k: v for k, v in value.items()}
    if not isinstance(value, str):
        return value
    match name:
        case "blanks":
            return [blank(value)]
        case "piece_prior":
            return piece_prior(value, name)
        case "support":
            return candidates(value)
        case "targets":
            return [word.strip() for word in value.split(",")]
    return value
