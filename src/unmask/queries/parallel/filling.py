"""Texts with many blanks as fills of fill-mask's keys: what `lm.fill_together` returns."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from unmask.arguments import real_number, whole_number
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
    """What every blank ranges over; by default all tokens that are written in texts."""
    if isinstance(support, Mapping | Sketch) or whole_number(support) is not None:
        raise SupportError(
            "together takes one support for all blanks: 'vocabulary', 'tokens', 'no-special', "
            f"an alphabet or a list of tokens, not {quoted(support)}"
        )
    candidates: Any = "tokens" if is_auto(support) else support
    return lm.support(candidates)


def check_seed(seed: object) -> None:
    """Reject what does not seed a generator."""
    number = whole_number(seed)
    if number is None or not 0 <= number < 2**31:
        raise UnmaskError(f"seed is a whole number from 0 to {2**31 - 1:,}, not {quoted(seed)}")


def check_passes(passes: object) -> float:
    """A number of forward passes per text, from 1."""
    number = real_number(passes)
    if number is None or not 1 <= number < math.inf:
        raise UnmaskError(f"passes is a number of forward passes from 1, not {quoted(passes)}")
    return number


def filled_together(
    lm: JointModel, clozes: Sequence[Cloze], hows: Sequence[Decoding], settings: Settings
) -> list[dict[str, Any]]:
    """A fill per text, with the blanks of each step as `groups`, and its forward passes."""
    for cloze in clozes:
        if max(cloze.blank_widths) > 1:
            raise ClozeError(
                "blanks that are filled together have one token each, and some have more; write "
                "one mask per blank"
            )
    texts = [BlankedText(cloze.ids, cloze.positions) for cloze in clozes]
    reader = RowReader(lm.model, settings)
    with reader.counted(rule_name(hows[0].rule) if hows else ""):
        reader.expect(sum(len(text.positions) for text in texts))
        filled = fill_blanked(reader, texts, hows)
    results = []
    for cloze, how, one in zip(clozes, hows, filled, strict=True):
        ids = tuple(int(how.support.ids[place]) for place in one.tokens)
        fill = Fill(tuple(how.support.names[place] for place in one.tokens), ids, one.log_prob)
        blanks = replace(cloze, gold=None)
        (ranked,) = fill_mask_output.of_tokens(lm.tokenizer, blanks, [fill], "together")
        more = {"rule": rule_name(how.rule), "threshold": how.threshold, "groups": list(one.steps)}
        results.append(ranked | more | {"forward_passes": one.forward_passes})
    return results
