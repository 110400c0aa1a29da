"""Tiny random masked LMs of ten architectures, each with a tokenizer of its own kind.

Nothing is downloaded: vocabularies are written out here, with special tokens at the ids that the
real checkpoints use. Weights are large and no bias is zero, so that distributions are far from
uniform and a forgotten bias shows.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

_WORDS = [
    *("the", "a", "cat", "dog", "man", "woman", "sat", "ran", "is", "was", "on", "in", "at"),
    *("red", "big", "old", "new", "mat", "hat", "car", "house", "of", "and", "to", "it", "he"),
    *("she", "they", "not", "small", "young", "her", "his", "very", ".", ",", "?"),
]
_PIECES = ["##s", "##ed", "##ing", "##er"]
_RESIDUES = [*"LAGVSERTIDPKQNFYMHWCXBUZO", ".", "-", "<null_1>"]
# single bytes, then what the merges below make of them; "Ġ" is the byte-level space
_BYTES = ["Ġ", *"abcdefghijklmnopqrstuvwxyz.,?"]
_MERGES = ["t h", "th e", "Ġ the", "a t", "Ġ c", "Ġc at", "s at", "Ġ sat", "o n", "Ġ on", "m at"]

_SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 24,
}


def build(name: str) -> tuple[Any, Any]:
    """A fresh model and tokenizer, the same at every call."""
    recipe, kind = _RECIPES[name]
    tokenizer, config = recipe()
    torch.manual_seed(7)
    model = kind(config)
    _randomise(model)
    return model.eval(), tokenizer


def saved(name: str, folder: Path) -> str:
    """The same in a folder, which `unmask.load` and the commands take."""
    for part in build(name):
        part.save_pretrained(folder)
    return str(folder)


def two_blanks(tokenizer: Any) -> str:
    """A text with two blanks that the tokenizer knows every token of."""
    mask = tokenizer.mask_token
    if not tokenizer.is_fast:
        return f"M K {mask} L {mask} A"
    return f"the cat {mask} {mask} the mat."


def hooks(model: Any) -> int:
    """How many hooks hang on a model."""
    return sum(len(m._forward_pre_hooks) + len(m._forward_hooks) for m in model.modules())


def _randomise(model: Any) -> None:
    """Large weights and biases; layer norms keep a scale near one."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(0, 0.3 if parameter.ndim > 1 else 0.5)
            if parameter.ndim == 1 and name.endswith("weight"):
                parameter.abs_().add_(0.7)


def _numbered(*groups: list[str]) -> dict[str, int]:
    return {token: i for i, token in enumerate(token for group in groups for token in group)}


def _wordpiece(vocabulary: dict[str, int], **roles: str) -> PreTrainedTokenizerFast:
    unknown = roles["unk_token"]
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token=unknown))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    return _wrapped(backend, roles)


def _byte_level(vocabulary: dict[str, int], **roles: str) -> PreTrainedTokenizerFast:
    merges = [tuple(merge.split(" ")) for merge in _MERGES]
    backend = Tokenizer(models.BPE(vocabulary, merges, unk_token=roles["unk_token"]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return _wrapped(backend, roles)


def _sentencepiece(vocabulary: dict[str, int], **roles: str) -> PreTrainedTokenizerFast:
    scored = [(piece, -float(i)) for piece, i in vocabulary.items()]
    backend = Tokenizer(models.Unigram(scored, unk_id=vocabulary[roles["unk_token"]]))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    return _wrapped(backend, roles)


def _wrapped(backend: Tokenizer, roles: dict[str, str]) -> PreTrainedTokenizerFast:
    start, end = roles["cls_token"], roles["sep_token"]
    ids = [(token, backend.token_to_id(token)) for token in (start, end)]
    backend.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {end}", special_tokens=ids
    )
    # the real ones too swallow the space before a mask
    mask = AddedToken(roles["mask_token"], lstrip=True, special=True)
    return PreTrainedTokenizerFast(tokenizer_object=backend, **{**roles, "mask_token": mask})


_BRACKETS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
_ANGLES = {
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "cls_token": "<s>",
    "sep_token": "</s>",
    "mask_token": "<mask>",
}


def _spaced_words() -> list[str]:
    return [word if word in ".,?" else f"▁{word}" for word in _WORDS]


def _bert_words() -> PreTrainedTokenizerFast:
    return _wordpiece(_numbered(list(_BRACKETS.values()), _WORDS, _PIECES), **_BRACKETS)


def _bert() -> tuple[Any, Any]:
    tokenizer = _bert_words()
    return tokenizer, transformers.BertConfig(vocab_size=len(tokenizer), **_SIZES)


def _distilbert() -> tuple[Any, Any]:
    tokenizer = _bert_words()
    return tokenizer, transformers.DistilBertConfig(
        vocab_size=len(tokenizer), dim=32, n_layers=2, n_heads=4, hidden_dim=48,
        max_position_embeddings=24,
    )  # fmt: skip


def _electra() -> tuple[Any, Any]:
    tokenizer = _bert_words()
    # narrower than the trunk: the readout is what the head projects to
    return tokenizer, transformers.ElectraConfig(
        vocab_size=len(tokenizer), embedding_size=16, **_SIZES
    )


def _albert() -> tuple[Any, Any]:
    roles = {**_BRACKETS, "pad_token": "<pad>", "unk_token": "<unk>"}
    tokenizer = _sentencepiece(_numbered(list(roles.values()), _spaced_words()), **roles)
    return tokenizer, transformers.AlbertConfig(
        vocab_size=len(tokenizer), embedding_size=16, **_SIZES
    )


def _roberta() -> tuple[Any, Any]:
    made = ["".join(merge.split(" ")) for merge in _MERGES]
    vocabulary = _numbered(["<s>", "<pad>", "</s>", "<unk>"], _BYTES, made, ["<mask>"])
    tokenizer = _byte_level(vocabulary, **_ANGLES)
    return tokenizer, transformers.RobertaConfig(
        vocab_size=len(tokenizer), pad_token_id=1, bos_token_id=0, eos_token_id=2, **_SIZES
    )


def _xlm_roberta() -> tuple[Any, Any]:
    vocabulary = _numbered(["<s>", "<pad>", "</s>", "<unk>"], _spaced_words(), ["<mask>"])
    tokenizer = _sentencepiece(vocabulary, **_ANGLES)
    return tokenizer, transformers.XLMRobertaConfig(
        vocab_size=len(tokenizer), pad_token_id=1, bos_token_id=0, eos_token_id=2, **_SIZES
    )


def _deberta_v2() -> tuple[Any, Any]:
    first = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
    tokenizer = _sentencepiece(_numbered(first, _spaced_words(), ["[MASK]"]), **_BRACKETS)
    return tokenizer, transformers.DebertaV2Config(
        # like the real ones, the output layer has more rows than the tokenizer has tokens
        vocab_size=len(tokenizer) + 3,
        relative_attention=True,
        pos_att_type="p2c|c2p",
        **_SIZES,
    )


def _deberta_v2_new_head() -> tuple[Any, Any]:
    tokenizer, config = _deberta_v2()
    config.legacy = False
    return tokenizer, config


def _mpnet() -> tuple[Any, Any]:
    roles = {**_ANGLES, "unk_token": "[UNK]"}
    first = ["<s>", "<pad>", "</s>", "[UNK]"]
    tokenizer = _wordpiece(_numbered(first, _WORDS, _PIECES, ["<mask>"]), **roles)
    return tokenizer, transformers.MPNetConfig(vocab_size=len(tokenizer), pad_token_id=1, **_SIZES)


def _modernbert() -> tuple[Any, Any]:
    made = ["".join(merge.split(" ")) for merge in _MERGES]
    vocabulary = _numbered(_BYTES, made, list(_BRACKETS.values()))
    tokenizer = _byte_level(vocabulary, **_BRACKETS)
    return tokenizer, transformers.ModernBertConfig(
        # padded to a round size, as the real one is
        vocab_size=48,
        pad_token_id=tokenizer.pad_token_id,
        cls_token_id=tokenizer.cls_token_id,
        sep_token_id=tokenizer.sep_token_id,
        bos_token_id=tokenizer.cls_token_id,
        eos_token_id=tokenizer.sep_token_id,
        decoder_bias=True,
        **_SIZES,
    )


def _esm() -> tuple[Any, Any]:
    tokens = ["<cls>", "<pad>", "<eos>", "<unk>", *_RESIDUES, "<mask>"]
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = Path(folder) / "vocab.txt"
        vocabulary.write_text("\n".join(tokens), encoding="utf-8")
        tokenizer = transformers.EsmTokenizer(str(vocabulary))
    return tokenizer, transformers.EsmConfig(
        vocab_size=len(tokens),
        pad_token_id=1,
        mask_token_id=tokens.index("<mask>"),
        position_embedding_type="rotary",
        token_dropout=True,
        **_SIZES,
    )


_RECIPES: dict[str, tuple[Callable[[], tuple[Any, Any]], type]] = {
    "bert": (_bert, transformers.BertForMaskedLM),
    "roberta": (_roberta, transformers.RobertaForMaskedLM),
    "xlm-roberta": (_xlm_roberta, transformers.XLMRobertaForMaskedLM),
    "distilbert": (_distilbert, transformers.DistilBertForMaskedLM),
    "albert": (_albert, transformers.AlbertForMaskedLM),
    "electra": (_electra, transformers.ElectraForMaskedLM),
    "deberta-v2": (_deberta_v2, transformers.DebertaV2ForMaskedLM),
    "deberta-v2-new-head": (_deberta_v2_new_head, transformers.DebertaV2ForMaskedLM),
    "mpnet": (_mpnet, transformers.MPNetForMaskedLM),
    "modernbert": (_modernbert, transformers.ModernBertForMaskedLM),
    "esm": (_esm, transformers.EsmForMaskedLM),
}

ARCHITECTURES = tuple(_RECIPES)
