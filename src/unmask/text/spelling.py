"""The spelling of a tokenizer's pieces: names, markers, normal forms, and rests of words.

Knows how WordPiece, byte-level and SentencePiece vocabularies write the start of a word, and
nothing of blanks. A tokenizer written in Python has no `backend_tokenizer`.
"""

import unicodedata
from collections.abc import Sequence
from typing import Any

from unmask.text.cloze import Tokenizer
from unmask.text.support import SPACE_MARKERS, without_space_marker


def ids_of_text(tokenizer: Tokenizer, text: str) -> list[int]:
    """The tokens of a text, special ones included."""
    return [int(token) for token in tokenizer(text, verbose=False)["input_ids"]]


def name_of_id(tokenizer: Tokenizer, token: int) -> str | None:
    """The name of a token, or None if there is no such id."""
    # beyond 32 bits there is no vocabulary, and tokenizers overflow
    if not 0 <= token < 2**31:
        return None
    try:
        name = tokenizer.convert_ids_to_tokens([token])[0]
    except (IndexError, KeyError):
        return None
    # tokenizers written in Python call every unknown id by the unknown token's name
    is_own = name is not None and id_of_name(tokenizer, str(name)) in (token, None)
    return str(name) if is_own else None


def id_of_name(tokenizer: Tokenizer, name: str) -> int | None:
    """The token of that name, or None: unknown names are not taken for the unknown token."""
    lookup: Any = getattr(tokenizer, "convert_tokens_to_ids", None)
    token = None if lookup is None else lookup(name)
    if token is None or tokenizer.convert_ids_to_tokens([token])[0] != name:
        return None
    return int(token)


def markers(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Prefixes that names of this vocabulary may have beside the characters of the piece."""
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return ("##", *SPACE_MARKERS)
    prefix = _continuation_prefix(tokenizer)
    # elsewhere Ġ is a letter, of Maltese
    return (prefix or ("Ġ" if "ByteLevel" in repr(backend.decoder) else "▁"),)


def continuation(tokenizer: Tokenizer, word: str) -> tuple[int, ...]:
    """The pieces of a word that goes on without a space, or none if there is no backend.

    WordPiece: its greedy search for `##word` begins with the longest continuing piece. Other
    vocabularies: the pieces without the marker of a space.
    """
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return ()
    normal, split = _normalised(tokenizer, word), backend.pre_tokenizer
    chunks = [normal] if split is None else [chunk for chunk, _ in split.pre_tokenize_str(normal)]
    if not chunks:
        return ()
    prefix = _continuation_prefix(tokenizer)
    bare = chunks[0] if prefix else without_space_marker(chunks[0])
    chunks[0] = prefix + bare
    try:
        return tuple(p.id for chunk in chunks if chunk for p in backend.model.tokenize(chunk))
    except Exception:  # a vocabulary without an unknown token fails on an unknown word
        return ()


def same_spelling(tokenizer: Tokenizer, word: str, ids: Sequence[int]) -> bool:
    """True if pieces spell the whole word, as normalised by the tokenizer, without spaces."""
    prefix = _continuation_prefix(tokenizer)
    if prefix:
        # WordPiece decoders rewrite English contractions and keep a first ##
        pieces = tokenizer.convert_ids_to_tokens(list(ids))
        spelled = "".join(name.removeprefix(prefix) for name in pieces)
    else:
        spelled = str(tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))
    texts = [_normalised(tokenizer, word), spelled]
    if not hasattr(tokenizer, "backend_tokenizer"):
        # what it does to case and width is not known, but a lost letter still shows
        texts = [unicodedata.normalize("NFKC", text).casefold() for text in texts]
    wanted, written = ("".join(text.replace("▁", " ").split()) for text in texts)
    return wanted == written


def _normalised(tokenizer: Tokenizer, text: str) -> str:
    normalizer: Any = getattr(getattr(tokenizer, "backend_tokenizer", None), "normalizer", None)
    return text if normalizer is None else str(normalizer.normalize_str(text))


def _continuation_prefix(tokenizer: Tokenizer) -> str:
    model: Any = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    # by name: the library of tokenizers need not be imported, nor be there
    is_word_piece = type(model).__name__ == "WordPiece"
    return str(model.continuing_subword_prefix) if is_word_piece else ""
