"""From sentences to masked batches, the same for the same seed on every machine.

Every random choice has a generator of its own, seeded by a hash of what it is for.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from torch import Tensor
from transformers import PreTrainedTokenizerFast

import unmask
from unmask.records.corpora import Sentence

ROLES = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
SPECIAL = list(ROLES.values())
PAD, MASK = SPECIAL.index("[PAD]"), SPECIAL.index("[MASK]")
# characters that get tokens of their own, the commonest first; others become [UNK]
_ALPHABET = 110
# as many sentences are held out, but no more than one in twenty
_HELD_OUT = 1000
_CHOSEN, _AS_MASK, _AS_RANDOM = 0.15, 0.8, 0.1


@dataclass(frozen=True)
class MaskedBatch:
    """Sentences of nearly one length with tokens hidden: `targets` are what stood at `chosen`.

    `weights` are those of the targets in the mean of the losses, None if all are as heavy.
    """

    ids: Tensor
    attention: Tensor
    chosen: Tensor
    targets: Tensor
    weights: Tensor | None = None


def generator(*parts: object) -> torch.Generator:
    said = "\x00".join(map(str, parts)).encode()
    # torch takes 64 bits with a sign
    number = int.from_bytes(hashlib.sha256(said).digest()[:8], "big") >> 1
    return torch.Generator().manual_seed(number)


def split(sentences: Sequence[Sentence]) -> tuple[list[str], list[str]]:
    """Texts to learn from and texts held out: the first in the order of a hash."""
    count = min(_HELD_OUT, len(sentences) // 20)
    if not count:
        raise unmask.UnmaskError(
            f"{len(sentences)} sentences are too few to learn from; give at least 20"
        )
    texts = sorted(
        (sentence.text for sentence in sentences),
        key=lambda text: hashlib.sha256(text.encode()).digest(),
    )
    return texts[count:], texts[:count]


def train_tokenizer(texts: Sequence[str], size: int, longest: int) -> PreTrainedTokenizerFast:
    """A cased WordPiece tokenizer like BERT's."""
    normalizer = normalizers.BertNormalizer(lowercase=False)
    clean = [normalizer.normalize_str(text) for text in texts]
    counts = Counter(ch for text in clean for ch in text if not ch.isspace())
    alphabet = sorted(sorted(counts, key=lambda ch: (-counts[ch], ch))[:_ALPHABET])
    keep = {ord(ch): " " for ch in counts.keys() - set(alphabet)}
    backend = _backend(models.WordPiece(unk_token="[UNK]"), normalizer)
    # The trainer numbers "##x" in the order of a hash map that differs from run to run, and breaks
    # ties by number: given as special they keep these numbers. Below they are ordinary again.
    fixed = [*SPECIAL, *(f"##{ch}" for ch in alphabet)]
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=fixed, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator((text.translate(keep) for text in clean), trainer)
    found = _backend(models.WordPiece(backend.get_vocab(), unk_token="[UNK]"), normalizer)
    found.add_special_tokens(SPECIAL)
    found.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, SPECIAL.index(name)) for name in ("[CLS]", "[SEP]")],
    )
    return PreTrainedTokenizerFast(tokenizer_object=found, model_max_length=longest, **ROLES)


def _backend(model: models.WordPiece, normalizer: normalizers.BertNormalizer) -> Tokenizer:
    backend = Tokenizer(model)
    backend.normalizer = normalizer
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    return backend


def encode(
    tokenizer: PreTrainedTokenizerFast, texts: Sequence[str], longest: int
) -> list[list[int]]:
    """Token ids of the sentences that fit; none is cut."""
    ids = tokenizer(list(texts), verbose=False)["input_ids"]
    fitting = [one for one in ids if 2 < len(one) <= longest]
    if not fitting:
        raise unmask.UnmaskError(f"no sentence has between 1 and {longest - 2} tokens")
    return fitting


def batches(sentences: Sequence[Sequence[int]], cells: int, draw: torch.Generator) -> list[Tensor]:
    """Padded batches of at most so many cells (or one sentence), all sentences once, shuffled.

    Sentences of a length come in random order; lengths are cut at the same places every time, so
    every epoch has as many batches.
    """
    order = torch.randperm(len(sentences), generator=draw).tolist()
    order.sort(key=lambda place: len(sentences[place]))
    groups: list[list[int]] = [[]]
    for place in order:
        if groups[-1] and (len(groups[-1]) + 1) * len(sentences[place]) > cells:
            groups.append([])
        groups[-1].append(place)
    shuffled = torch.randperm(len(groups), generator=draw).tolist()
    return [padded([sentences[place] for place in groups[number]]) for number in shuffled]


def padded(sentences: Sequence[Sequence[int]]) -> Tensor:
    longest = max(map(len, sentences))
    return torch.tensor([[*one, *[PAD] * (longest - len(one))] for one in sentences])


def hide(ids: Tensor, vocabulary: int, draw: torch.Generator, few: float) -> MaskedBatch:
    """Tokens to guess: in a share `few` of the sentences one or two adjacent ones, else BERT's 15%.

    One and two are as likely, and always masked; of the 15%, 80% are masked, 10% replaced, 10%
    left. An [UNK] is never to be guessed.
    """
    ordinary = ids >= len(SPECIAL)
    kind = torch.rand((len(ids), 1), generator=draw)
    many = ordinary & (torch.rand(ids.shape, generator=draw) < _CHOSEN) & (kind >= few)
    one = _first_of(ordinary, draw)
    followed = ordinary & torch.nn.functional.pad(ordinary[:, 1:], (0, 1))
    start = _first_of(followed, draw)
    two = start | torch.nn.functional.pad(start[:, :-1], (1, 0))
    two = torch.where(followed.any(1, keepdim=True), two, one)
    masked = torch.where(kind < few / 2, one, two) & (kind < few)
    fate = torch.rand(ids.shape, generator=draw)
    others = torch.randint(len(SPECIAL), vocabulary, ids.shape, generator=draw)
    hidden = torch.where(masked | (many & (fate < _AS_MASK)), MASK, ids)
    replaced = many & (fate >= _AS_MASK) & (fate < _AS_MASK + _AS_RANDOM)
    hidden = torch.where(replaced, others, hidden)
    chosen = masked | many
    if not chosen.any():
        # a mean over nothing has no gradient; every sentence has a token after [CLS]
        chosen[0, 1] = True
    return MaskedBatch(hidden, (ids != PAD).long(), chosen, ids[chosen])


def _first_of(allowed: Tensor, draw: torch.Generator) -> Tensor:
    """In each row one of the allowed cells, all as likely; none in a row without any."""
    place = torch.rand(allowed.shape, generator=draw).masked_fill(~allowed, -1.0).argmax(1)
    drawn = torch.zeros_like(allowed)
    drawn[torch.arange(len(allowed)), place] = True
    return drawn & allowed
