"""The models that the engine is timed on, each with a cloze of 16 tokens, two of them blank."""

import copy
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

import unmask
from unmask.model.hugging_face import HuggingFaceMaskedLM
from unmask.model.row_reader import rows_per_batch

TEXTS = {
    "caption-bert": "Two [MASK] in red are playing [MASK] on the beach near the sea.",
    "albert-tiny-chinese": "今天的天气好，我们去公[MASK]散[MASK]",
}
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LENGTH = 16


@dataclass(frozen=True, eq=False)
class Subject:
    """A model with its cloze, and how many rows of it are a fair sample in one repeat."""

    name: str
    lm: unmask.LanguageModel
    cloze: unmask.Cloze
    rows: int

    @property
    def adapted(self) -> HuggingFaceMaskedLM:
        assert isinstance(self.lm.model, HuggingFaceMaskedLM)
        return self.lm.model

    @property
    def settings(self) -> unmask.Settings:
        """Elicitation as it comes, but with its batch size written down for others to follow."""
        rows = rows_per_batch(self.lm.model, len(self.cloze), unmask.Settings())
        return unmask.Settings(batch_size=rows, progress=False, announce=False)

    def contexts(self) -> list[int]:
        """Token ids spread evenly over the vocabulary: as many as the sample has rows."""
        size = self.lm.model.vocabulary_size
        rows = min(self.rows, size)
        return [i * size // rows for i in range(rows)]

    def in_bfloat16(self) -> "Subject":
        """The same weights, rounded."""
        rounded = copy.deepcopy(self.adapted.model).to(torch.bfloat16)
        return replace(self, lm=unmask.load((rounded, self.lm.tokenizer)))

    def size(self) -> dict[str, object]:
        return {
            "vocabulary": self.lm.model.vocabulary_size,
            "length": len(self.cloze),
            "rows": len(self.contexts()),
            "batch": self.settings.batch_size,
        }


def folder_of(name: str) -> Path | None:
    """Where a real model is, by the variables that the tests use; None if it is nowhere."""
    assets, fetched = os.environ.get("UNMASK_TEST_ASSETS"), os.environ.get("UNMASK_TEST_MODELS")
    places = [Path(assets) / "models" / name] if assets else []
    places += [Path(fetched) / name] if fetched else []
    return next((place for place in places if (place / "config.json").exists()), None)


def _pretrained(name: str, rows: int) -> Subject | None:
    folder = folder_of(name)
    if folder is None:
        return None
    lm = unmask.load(folder)
    return Subject(name, lm, lm.cloze(TEXTS[name]), rows)


def _numbered_tokens(size: int) -> PreTrainedTokenizerFast:
    """A tokenizer of so many words that mean nothing."""
    names = [*SPECIAL, *(f"w{i}" for i in range(len(SPECIAL), size))]
    backend = Tokenizer(models.WordLevel({n: i for i, n in enumerate(names)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    roles: dict[str, Any] = {f"{name[1:-1].lower()}_token": name for name in SPECIAL}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **roles)


def _random_bert(name: str, rows: int, **sizes: Any) -> Subject:
    torch.manual_seed(0)
    config = BertConfig(**sizes)
    lm = unmask.load((BertForMaskedLM(config).eval(), _numbered_tokens(config.vocab_size)))
    rng = random.Random(0)
    words = [f"w{rng.randrange(len(SPECIAL), config.vocab_size)}" for _ in range(LENGTH)]
    words[4] = words[9] = "[MASK]"
    return Subject(name, lm, lm.cloze(" ".join(words)), rows)


def _bert_base() -> Subject:
    return _random_bert(
        "bert-base-random", 256, vocab_size=28_996, hidden_size=768, num_hidden_layers=12,
        num_attention_heads=12, intermediate_size=3072,
    )  # fmt: skip


def _tiny() -> Subject:
    return _random_bert(
        "tiny-random", 64, vocab_size=1100, hidden_size=32, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=64,
    )  # fmt: skip


SUBJECTS: dict[str, Callable[[], Subject | None]] = {
    "caption-bert": lambda: _pretrained("caption-bert", 1024),
    "albert-tiny-chinese": lambda: _pretrained("albert-tiny-chinese", 512),
    "bert-base-random": _bert_base,
    "tiny-random": _tiny,
}
