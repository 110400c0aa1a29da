"""A SentencePiece tokenizer of the kind that ALBERT has, written out here."""

import string
from functools import cache

from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend
from transformers import PreTrainedTokenizerFast

_SPECIAL = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
_WORDS = ("▁the", "▁man", "man", "▁un", "▁unable", "able", "▁woman", "▁cat", "cat", "日本", "▁is")
_CHARACTERS = (*string.ascii_lowercase, *string.digits, *"-.,'", "▁", "日", "本")


@cache
def sentence_piece(*, prepend: str = "always") -> PreTrainedTokenizerFast:
    """Lower case without accents; `▁` is a space, put before the text or every part of it."""
    scored = [
        *((name, 0.0) for name in _SPECIAL),
        *((word, -3.0) for word in _WORDS),
        *((character, -6.0) for character in _CHARACTERS),
    ]
    backend = Backend(models.Unigram(scored, unk_id=1))
    backend.normalizer = normalizers.Sequence(
        [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
    )
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prepend)
    backend.decoder = decoders.Metaspace(prepend_scheme=prepend)
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        unk_token="<unk>",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token=AddedToken("[MASK]", lstrip=True, special=True),
    )
