"""What `unmask fill` computes for a text: by its options, or by the fields of a line."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from unmask.errors import SupportError
from unmask.printable import quoted

if TYPE_CHECKING:
    from unmask.language_model import LanguageModel
    from unmask.settings import Settings
    from unmask.text.cloze import Cloze

# the options of each method, by its name
How = Mapping[str, Mapping[str, Any]]
# fields of a line that are read in place of the options
FIELDS = ("blanks", "method", "piece_prior", "support", "targets")


@dataclass(frozen=True)
class Request:
    """What is requested for a text, by options or by the fields of its line."""

    blanks: Any = None
    method: str | None = None
    support: Any = "auto"
    targets: Any = None
    piece_prior: Any = None

    def with_fields(self, fields: Mapping[str, object]) -> "Request":
        """The same with the fields of a line; its words replace candidates, and vice versa."""
        given = {name: fields[name] for name in FIELDS if fields.get(name) is not None}
        if "support" in given and "targets" in given:
            raise SupportError("the fields support and targets exclude each other; give one")
        checked: dict[str, Any] = {name: _CHECKS[name](value) for name, value in given.items()}
        if "support" in checked:
            checked["targets"] = None
        if "targets" in given:
            checked["support"] = "auto"
        request = replace(self, **checked)
        if "piece_prior" in checked and request.targets is None:
            raise SupportError("the field piece_prior ranks targets, and there are none; give both")
        return request

    def ranked_words(
        self,
        lm: "LanguageModel",
        cloze: "Cloze",
        method: str,
        *,
        top: int,
        settings: "Settings",
        how: How,
    ) -> list[dict[str, Any]]:
        """The targets in order of their probability, by one method with its options of `how`."""
        return lm.fill(
            cloze,
            top=top,
            method=method,
            support=self.support,
            targets=self.targets,
            piece_prior=self.piece_prior,
            settings=settings,
            **how.get(method, {}),
        )


def _method(value: object) -> str:
    from unmask.constructions import method_name

    return method_name(value)


def _blanks(value: object) -> list[Any]:
    from unmask.text.spans import checked_blanks

    return list(checked_blanks(value))


def _support(value: object) -> object:
    if isinstance(value, dict):
        return {_number(blank): _one_support(one) for blank, one in value.items()}
    return _one_support(value)


def _one_support(value: object) -> object:
    if _is_token(value) or (isinstance(value, list) and all(_is_token(one) for one in value)):
        return value
    raise SupportError(
        "its field 'support' is a name, a number of candidates, a list of tokens, or an object of "
        f"those by blank, not {quoted(value)}"
    )


def _targets(value: object) -> object:
    if isinstance(value, dict):
        return {_number(blank): _words(one) for blank, one in value.items()}
    if isinstance(value, list) and not all(isinstance(one, str) for one in value):
        return [None if one is None else _words(one) for one in value]
    return _words(value)


def _words(value: object) -> list[str]:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise SupportError(
            "its field 'targets' is a list of words, one such list per blank, or an object of them "
            f"by blank, not {quoted(value)}"
        )
    return words


def _piece_prior(value: object) -> object:
    if isinstance(value, dict):
        # float takes no larger number
        if all(isinstance(w, int | float) and abs(w) < 1e300 for w in value.values()):
            return {_number(pieces): float(weight) for pieces, weight in value.items()}
    elif isinstance(value, str):
        return value
    raise SupportError(
        "its field 'piece_prior' is 'uniform', or an object from numbers of pieces to their "
        f"probabilities, not {quoted(value)}"
    )


def _is_token(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _number(key: str) -> int:
    """Keys of JSON are strings."""
    if not (key.isascii() and key.isdigit() and len(key) < 10):
        raise SupportError(f"the key {quoted(key)} should be a number: of a blank, or of pieces")
    return int(key)


_CHECKS: dict[str, Callable[[object], object]] = {
    "blanks": _blanks,
    "method": _method,
    "piece_prior": _piece_prior,
    "support": _support,
    "targets": _targets,
}
