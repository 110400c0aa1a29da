"""The parts of a text that the vocabulary has no token for, or that are special tokens.

The model reads the same unknown token for all of it, so that its answer is to another text. Each
text with such parts is answered with a warning that names them. A text of which nothing is known is
rejected: its answer would depend on nothing but how many unknown tokens there are, as where a
protein is written without the spaces that its tokenizer wants. The unknown token itself, written
into a text on purpose, is what the model reads and no cause for either.

Special tokens in a text that was scraped, such as <unk> or [SEP], are hardly on purpose: scores of
whole texts count and name them.
"""

from collections.abc import Collection, Sequence

from unmask.errors import ClozeError, SpecialTokenWarning, UnknownTokenWarning, warn
from unmask.names import ALPHABETS
from unmask.printable import printable, quoted
from unmask.text.cloze import Tokenizer
from unmask.text.spelling import id_of_name

# a whole text may be unknown: a warning stays one readable line
_LISTED = 4
_RESIDUES_SHOWN = 8


def check_known(
    tokenizer: Tokenizer, unknown: Sequence[str], ids: Collection[int], name: str
) -> None:
    """Reject a text without any token of the vocabulary."""
    if unknown and not set(ids) - {*tokenizer.all_special_ids, tokenizer.unk_token_id}:
        raise ClozeError(
            f"{name} has no token that this model knows: {described(tokenizer, unknown)}"
        )


def described(tokenizer: Tokenizer, unknown: Sequence[str]) -> str:
    """The parts that became unknown, and how to write them if they are residues."""
    mark = printable(str(tokenizer.convert_ids_to_tokens([tokenizer.unk_token_id])[0]))
    note = f"the vocabulary has no token for {_listed(unknown)}: the model reads {mark} there"
    spaced = next((way for part in unknown if (way := _residues(tokenizer, part))), None)
    return note if spaced is None else f"{note}; write residues with spaces between them: {spaced}"


def warn_of_texts(
    tokenizer: Tokenizer, unknown: Sequence[Sequence[str]], special: Sequence[Sequence[str]] = ()
) -> None:
    """One warning for many texts of their unknown parts, and one of special tokens in them."""
    for by_text, category in ((unknown, UnknownTokenWarning), (special, SpecialTokenWarning)):
        count = sum(map(bool, by_text))
        if count:
            parts = [part for parts in by_text for part in parts]
            note = f"{_listed(parts)} in a text is read as a special token"
            if category is UnknownTokenWarning:
                note = described(tokenizer, parts)
            share = "" if len(by_text) == 1 else f"{count:,} of {len(by_text):,} texts: "
            warn(f"{share}{note}", category)


def _listed(unknown: Sequence[str]) -> str:
    parts = list(dict.fromkeys(unknown))
    listed = ", ".join(map(quoted, parts[:_LISTED]))
    return listed if len(parts) <= _LISTED else f"{listed} and {len(parts) - _LISTED:,} more"


def _residues(tokenizer: Tokenizer, part: str) -> str | None:
    """The part with spaces, if that is how a vocabulary of residues wants it."""
    if not (part.isascii() and part.isalpha()):
        return None
    for letters in (part, part.upper()):
        wanted = {*ALPHABETS["amino-acids"], *letters}
        # with pieces that continue a word, it is a vocabulary of words
        if all(id_of_name(tokenizer, letter) is not None for letter in wanted) and (
            id_of_name(tokenizer, "##" + letters[-1]) is None
        ):
            more = " ..." if len(letters) > _RESIDUES_SHOWN else ""
            return " ".join(letters[:_RESIDUES_SHOWN]) + more
    return None
