"""What a reader calls a support: its name, or of a long list how many tokens and the first few."""

import re
from collections.abc import Iterable

from unmask.evaluation.rows import WHOLE_VOCABULARY, Group

# up to so many tokens are listed; of more, the first few
_MOST_LISTED, _FIRST = 8, 3
# lists are joined by commas, and a comma is a token too
_TOKEN = re.compile(r"(,|[^,]+)(?:,|$)")


def shown_support(support: str) -> str:
    """A long list of tokens shortened; plans and JSON have all of it."""
    tokens = _TOKEN.findall(support)
    if len(tokens) <= _MOST_LISTED:
        return support
    return f"{len(tokens)} tokens: {', '.join(tokens[:_FIRST])}, ..."


def shown_supports(supports: Iterable[str]) -> dict[str, str]:
    """The same for the supports of one table; whole where two would look alike."""
    shown = {support: shown_support(support) for support in supports}
    alike = len(set(shown.values())) < len(shown)
    return {support: support for support in shown} if alike else shown


def shown_setting(group: Group) -> str:
    """Model, corpus, blanks and support of a setting, as a title."""
    said = f"{group.model}, {group.corpus}, {group.mask} blanks"
    if group.support == WHOLE_VOCABULARY:
        return said
    return f"{said}, support {shown_support(group.support)}"
