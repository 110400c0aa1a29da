"""Tokenizers of a few dozen tokens, made here, and a tiny BERT that speaks one of them.

The three kinds that `parse_cloze` must tell apart: WordPiece as BERT has it, byte-level BPE as
RoBERTa has it, and one in Python that keeps no character offsets.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import torch
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend
from tokenizers.trainers import BpeTrainer
from transformers import BertConfig, BertForMaskedLM, EsmTokenizer, PreTrainedTokenizerFast

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

# what a terminal, a markup language or a line-by-line reader would act on
ODD = (
    "[unused1]",
    "[/x]",
    "[bold]",
    "\x1b[31mred",
    "two\nlines",
    "tab\there",
    "\u202egnp.exe",
    "zero\u200dwidth",
    "nul\x00l",
    "del\x7f",
    "line\u2028separator",
)

WORDS = (
    *("the", "a", "cat", "dog", "man", "woman", "sat", "ran", "saw", "on", "mat", "happy", "."),
    *("un", "##happy", "##s", "##ly", "日", "本", "é"),
)

PIECES = (*SPECIAL, *ODD, *WORDS)

_SENTENCES = (
    "The man saw the dog. A man and the dog ran away.",
    "the woman said that the man saw a man.",
    "manmade things and a doghouse, said the man.",
)


@cache
def word_piece() -> PreTrainedTokenizerFast:
    """Like BERT's: pieces that continue a word begin with ##, and `[MASK]` is a blank."""
    ids = {piece: i for i, piece in enumerate(PIECES)}
    backend = Backend(models.WordPiece(ids, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(name, ids[name]) for name in ("[CLS]", "[SEP]")]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


@cache
def byte_level(*, trim_offsets: bool = True) -> PreTrainedTokenizerFast:
    """Like RoBERTa's: a piece owns the space before it, and so does `<mask>`.

    Without `trim_offsets` a piece's span holds that space too, as in some models' files.
    """
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.train_from_iterator(
        _SENTENCES,
        BpeTrainer(
            vocab_size=320,
            special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    backend.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=trim_offsets, add_prefix_space=False
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<s>",
        eos_token="</s>",
        cls_token="<s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token=AddedToken("<mask>", lstrip=True, special=True),
    )


def without_offsets(folder: Path) -> EsmTokenizer:
    """A tokenizer written in Python: one letter a token, no character offsets."""
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(("<cls>", "<pad>", "<eos>", "<unk>", *"ACDE", "<mask>")))
    return EsmTokenizer(str(vocabulary))


def without_unknown() -> PreTrainedTokenizerFast:
    """A vocabulary of one word that fails on every other."""
    backend = Backend(models.WordLevel({"cat": 0, "[MASK]": 1}, unk_token="[UNK]"))
    return PreTrainedTokenizerFast(tokenizer_object=backend, mask_token="[MASK]")


def tiny_bert(bias: Mapping[str, float] | None = None, *, seed: int = 0) -> BertForMaskedLM:
    """A random BERT of 16 dimensions over `PIECES`; `bias` makes it prefer some of them."""
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(PIECES),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=24,
        initializer_range=0.5,
    )
    model = BertForMaskedLM(config).eval()
    with torch.no_grad():
        for piece, preference in (bias or {}).items():
            model.get_output_embeddings().bias[PIECES.index(piece)] += preference
    return model


def save_bert(folder: Path, bias: Mapping[str, float] | None = None) -> Path:
    """The tiny BERT with its tokenizer, as a folder that `load` takes."""
    tiny_bert(bias).save_pretrained(folder)
    word_piece().save_pretrained(folder)
    return folder
