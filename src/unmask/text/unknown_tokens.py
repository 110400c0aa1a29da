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
    apart = next((way for part in unknown if (way := _residues(tokenizer, part))), None)
    return note if apart is None else f"{note}; write residues with spaces between them: {apart}"


def warn_of_texts(tokenizer: Tokenizer, texts: Sequence[Sequence[str]]) -> None:
    """One warning for many texts, from the unknown parts of each."""
    unknown_parts = [unknown for unknown in texts if unknown]
    if unknown_parts:
        parts = described(tokenizer, [part for unknown in unknown_parts for part in unknown])
        where = "" if len(texts) == 1 else f"{len(unknown_parts):,} of {len(texts):,} texts: "
        warn(f"{where}{parts}", UnknownTokenWarning)


def special_parts(text: str, special: Collection[str]) -> tuple[str, ...]:
    """The special tokens that are written in a text, as often as they are."""
    return tuple(name for name in special for _ in range(text.count(name)))


def warn_of_special(texts: Sequence[Sequence[str]]) -> None:
    """One warning for many texts, from the special tokens that are written in each."""
    special = [parts for parts in texts if parts]
    if special:
        where = "" if len(texts) == 1 else f"{len(special):,} of {len(texts):,} texts: "
        names = _listed([name for parts in special for name in parts])
        warn(f"{where}{names} in a text is read as a special token", SpecialTokenWarning)


def _listed(unknown: Sequence[str]) -> str:
    parts = list(dict.fromkeys(unknown))
    listed = ", ".join(map(quoted, parts[:_LISTED]))
    return listed if len(parts) <= _LISTED else f"{listed} and {len(parts) - _LISTED:,} more"


def _residues(tokenizer: Tokenizer, part: str) -> str | None:
    """The part with spaces, if that is how a vocabulary of residues wants it."""
    if not (part.isascii() and part.isalpha()) or not _has_all(tokenizer, ALPHABETS["amino-acids"]):
        return None
    letters = next((way for way in (part, part.upper()) if _has_all(tokenizer, way)), None)
    if letters is None or id_of_name(tokenizer, "##" + letters[-1]) is not None:
        # with pieces that continue a word, this is a vocabulary of words
        return None
    more = " ..." if len(letters) > _RESIDUES_SHOWN else ""
    return " ".join(letters[:_RESIDUES_SHOWN]) + more


def _has_all(tokenizer: Tokenizer, letters: str) -> bool:
    return all(id_of_name(tokenizer, letter) is not None for letter in set(letters))
