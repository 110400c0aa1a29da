"""The fills of `unmask fill`: as a table, or as JSON for programs."""

import json
from collections.abc import Iterator
from itertools import chain, islice, zip_longest
from typing import TYPE_CHECKING, Any

from unmask.joints.agreement import UNITS
from unmask.printable import columns, listed, printable

if TYPE_CHECKING:
    from unmask.joints.fill import Fill
    from unmask.joints.joint import Joint
    from unmask.language_model import LanguageModel
    from unmask.text.cloze import Cloze

Joints = dict[str, "Joint"]
# fills by words with the keys of fill-mask, best first, by method
WordFills = dict[str, list[dict[str, Any]]]


def as_table(lm: "LanguageModel", cloze: "Cloze", joints: Joints, top: int) -> str:
    """The likeliest fills of every joint side by side, and below them how far to trust them."""
    ranked = {
        name: [[*_cells(lm, cloze, fill), fill.written()] for fill in joint.top(top)]
        for name, joint in joints.items()
    }
    return _table(ranked, len(cloze.blank_widths), ["prob"], [*_notes(lm, joints)])


def words_as_table(fills: WordFills, prior: object) -> str:
    """The same for words that were given, of one piece or several."""
    every = [fill for ranked in fills.values() for fill in ranked]
    wide = any(pieces > 1 for fill in every for pieces in _each(fill, "pieces"))
    ranked = {name: [_word_cells(fill, wide) for fill in words] for name, words in fills.items()}
    numbers = ["prob", "pieces"] if wide else ["prob"]
    return _table(ranked, len(_each(every[0], "word")), numbers, _word_notes(wide, prior))


def _table(
    ranked: dict[str, list[list[str]]], blanks: int, numbers: list[str], notes: list[str]
) -> str:
    """The fills of every method side by side: one column per blank, then its numbers."""
    head = chain(*([name, *[""] * (blanks - 1), *numbers] for name in ranked))
    # a search may find fewer fills than another method ranks
    ranks = zip_longest(*ranked.values(), fillvalue=[""] * (blanks + len(numbers)))
    rows = [[str(rank), *chain(*cells)] for rank, cells in enumerate(ranks, start=1)]
    return "\n".join([columns([["rank", *head], *rows]), *(["", *notes] if notes else [])])


def as_json(lm: "LanguageModel", cloze: "Cloze", joints: Joints, top: int) -> str:
    """Everything, with fill-mask's keys for the fills."""
    from unmask.queries.fill_mask_output import of_tokens

    results: dict[str, object] = {}
    for name, joint in joints.items():
        agreement, free = joint.agreement(), joint.is_tabulated()
        results[name] = {
            "fills": of_tokens(lm.tokenizer, cloze, joint.top(top), joint.method),
            "entropy": joint.entropy() if free else None,
            "mutual_information": joint.mutual_information() if free else None,
            "incompatibility": None if agreement is None else agreement.bits,
            "verdict": None if agreement is None else agreement.words(),
            **({"standard_errors": joint.standard_errors()} if joint.is_sketched() else {}),
            "diagnostics": joint.diagnostics,
        }
    return _json(lm, cloze, results)


def words_as_json(lm: "LanguageModel", cloze: "Cloze", fills: WordFills, prior: object) -> str:
    """The same for words; sums over all that could fill the blanks are not known."""
    unknown = dict.fromkeys(("entropy", "mutual_information", "incompatibility", "verdict"))
    results: dict[str, object] = {
        name: {"fills": words, **unknown, "diagnostics": {"method": name, "piece_prior": prior}}
        for name, words in fills.items()
    }
    return _json(lm, cloze, results)


def _json(lm: "LanguageModel", cloze: "Cloze", results: dict[str, object]) -> str:
    document = {
        "model": lm.name,
        "text": cloze.text,
        "blanks": len(cloze.blank_widths),
        "pieces": list(cloze.blank_widths),
        "unknown_tokens": list(cloze.unknown),
        "units": UNITS,
        "results": results,
    }
    # ASCII escapes keep every control character inert, whatever reads this next
    return json.dumps(document, indent=2, allow_nan=False)


def _cells(lm: "LanguageModel", cloze: "Cloze", fill: "Fill") -> Iterator[str]:
    """The fill of each blank: one token by its name, several as their text."""
    rest = iter(zip(fill.tokens, fill.ids, strict=True))
    for width in cloze.blank_widths:
        tokens = list(islice(rest, width))
        name, whole = tokens[0][0], [token for _, token in tokens]
        yield printable(name if width == 1 else lm.tokenizer.decode(whole))


def _word_cells(fill: dict[str, Any], wide: bool) -> list[str]:
    pieces = [" + ".join(map(str, _each(fill, "pieces")))] if wide else []
    return [*map(printable, _each(fill, "word")), f"{fill['score']:.3g}", *pieces]


def _each(fill: dict[str, Any], key: str) -> list[Any]:
    value = fill[key]
    return value if isinstance(value, list) else [value]


def _notes(lm: "LanguageModel", joints: Joints) -> Iterator[str]:
    """Notes on trust: J, mutual information, and what was left out."""
    sketched = {name: joint for name, joint in joints.items() if joint.is_sketched()}
    errors = {name: joint.standard_errors() for name, joint in sketched.items()}
    name, first = next(iter((sketched or joints).items()))
    if (agreement := first.agreement()) is not None:
        yield agreement.said(errors.get(name, {}).get("incompatibility"))
    dependent = []
    for name, joint in joints.items():
        if len(joint.supports) > 1 and joint.is_tabulated():
            error = errors.get(name, {}).get("mutual_information")
            more = "" if error is None else f" +- {error:.2f}"
            dependent.append(f"{abs(joint.mutual_information()):.2f}{more} nats ({name})")
    if dependent:
        yield f"mutual information: {', '.join(dependent)}"
    size = lm.model.vocabulary_size
    if sketched:
        passes = max(int(str(joint.diagnostics["forward_passes"])) for joint in sketched.values())
        yield (
            f"estimated from {passes:,} forward passes of {2 * size + 1:,}; +- is one standard "
            "error (--exact runs all)"
        )
    for name, joint in sketched.items():
        if joint.diagnostics.get("precision_reached") is False:
            yield (
                f"{name}: log-probabilities have a standard error of "
                f"{joint.diagnostics['standard_error']:.2f}, above the precision: too many tokens "
                "carry mass here for this many passes"
            )
    diagnostics: Any = first.diagnostics
    held = diagnostics.get("captured_mass_given_others") or diagnostics.get("captured_mass")
    if held is not None and not sketched and not all(a.is_whole(size) for a in first.supports):
        counts = listed([f"{len(axis):,}" for axis in first.supports])
        noun = "place" if len(held) == 1 else "places, in order"
        yield (
            f"the candidates ({counts}) have {listed([_percent(part) for part in held])} of the "
            f"model's probability at their {noun}; probabilities are conditional on them"
        )
    for name, joint in joints.items():
        mass: Any = joint.diagnostics.get("searched_mass")
        if mass is not None:
            yield (
                f"{name}: fills were searched for; the {joint.diagnostics['searched']} found have "
                f"{_percent(mass)} of all probability, and one that was missed has at most "
                f"{_percent(1 - mass)}"
            )


def _word_notes(wide: bool, prior: object) -> list[str]:
    lines = ["prob is among everything that could fill the blank, not only among these words"]
    if isinstance(prior, dict):
        text = listed([f"{n} piece{'s' * (n != 1)} {weight:g}" for n, weight in prior.items()])
        lines.append(f"assumed for the number of pieces of a blank: {text}")
    elif prior is not None:
        lines.append("assumed: all numbers of pieces that these words have are equally likely")
    elif wide:
        lines.append(
            "prob is conditional on the number of pieces of each blank: other lengths "
            "are not comparable"
        )
    return lines


def _percent(part: float) -> str:
    return f"{100 * part:.3g}%"
