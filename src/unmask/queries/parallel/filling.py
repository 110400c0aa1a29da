"""Texts with many blanks as fills of fill-mask's keys: what `lm.decode` returns."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from unmask.arguments import whole_number
from unmask.errors import ClozeError, SupportError, UnmaskError
from unmask.joints.fill import Fill
from unmask.model.row_reader import RowReader
from unmask.printable import quoted
from unmask.queries import fill_mask_output
from unmask.queries.joint_model import Axes, JointModel
from unmask.queries.parallel.decoding import BlankedText, Decoding, fill_blanked
from unmask.queries.parallel.rules import rule_name
from unmask.settings import Settings, Sketch
from unmask.tables.proposals import is_auto
from unmask.text.cloze import Cloze
from unmask.text.support import Support


def one_support(lm: JointModel, support: Axes) -> Support:
    """The tokens that every blank ranges over; by default all that are written in texts."""
    if isinstance(support, Mapping | Sketch) or whole_number(support) is not None:
        raise SupportError(
            "blanks that are filled step by step have one support: 'vocabulary', 'tokens', "
            f"'no-special', an alphabet or a list of tokens, not {quoted(support)}"
        )
    candidates: Any = "tokens" if is_auto(support) else support
    return lm.support(candidates)


def check_seed(seed: object) -> None:
    """Reject what does not seed a generator."""
    number = whole_number(seed)
    if number is None or not 0 <= number < 2**31:
        raise UnmaskError(f"seed is a whole number from 0 to {2**31 - 1:,}, not {quoted(seed)}")


def decoded(
    lm: JointModel, clozes: Sequence[Cloze], decodings: Sequence[Decoding], settings: Settings
) -> list[dict[str, Any]]:
    """A fill per text, with its rule, the blanks of each step as `groups`, and its passes."""
    for cloze in clozes:
        if max(cloze.blank_widths) > 1:
            raise ClozeError(
                "blanks that are filled step by step have one token each, and some have more; "
                "write one mask per blank"
            )
    texts = [BlankedText(cloze.ids, cloze.positions) for cloze in clozes]
    reader = RowReader(lm.model, settings)
    with reader.counted(rule_name(decodings[0].rule) if decodings else ""):
        reader.expect(sum(len(text.positions) for text in texts))
        fillings = fill_blanked(reader, texts, decodings)
    results = []
    for cloze, decoding, filling in zip(clozes, decodings, fillings, strict=True):
        support = decoding.support
        ids = tuple(int(support.ids[place]) for place in filling.tokens)
        names = tuple(support.names[place] for place in filling.tokens)
        fill, blanks = Fill(names, ids, filling.log_prob), replace(cloze, gold=None)
        (result,) = fill_mask_output.of_tokens(lm.tokenizer, blanks, [fill], "decode")
        steps = {
            "rule": rule_name(decoding.rule),
            # JSON has no infinity: the bound of a head that may fill all blanks at once
            "threshold": None if decoding.threshold == math.inf else decoding.threshold,
            "groups": filling.steps,
            "forward_passes": filling.forward_passes,
        }
        results.append(result | steps)
    return results
