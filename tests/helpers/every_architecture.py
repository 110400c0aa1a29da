"""A tiny random model of every architecture that transformers counts among the masked LMs.

All speak the vocabulary of one tokenizer, since an architecture does not care what its ids mean.
Weights are large and no bias is zero: distributions are far from uniform, and contexts matter.
Windows, blocks and chunks are so small that 150 tokens are many of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
import transformers
from tiny_models import build as tiny_model
from transformers import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

CLASSES: Mapping[str, str] = MODEL_FOR_MASKED_LM_MAPPING_NAMES
# how many tokens every model takes at least
POSITIONS = 192


@cache
def tokenizer() -> Any:
    """BERT-like, some forty words; ids of padding, start, end and mask are 0, 2, 3 and 4."""
    return tiny_model("bert")[1]


@dataclass(frozen=True)
class Recipe:
    """How to make one model, and what is to be expected of it.

    `sentence` is a pattern of the one true sentence in which loading or asking ends; without one
    the tables must be those of the plain model. `dense` says that no output layer is found whose
    input determines the logits.
    """

    architecture: str
    options: Mapping[str, Any] = field(default_factory=dict)
    sentence: str | None = None
    dense: bool = False
    # the size of most weights
    spread: float = 0.4


def build(recipe: Recipe) -> Any:
    """A fresh model, the same at every call, in eval mode."""
    torch.manual_seed(7)
    config = CONFIG_MAPPING[recipe.architecture](**_options(recipe))
    model = getattr(transformers, CLASSES[recipe.architecture])(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(0, recipe.spread if parameter.ndim > 1 else 0.5)
            if parameter.ndim == 1 and name.endswith("weight"):
                parameter.abs_().add_(0.7)
    return model.eval()


def _options(recipe: Recipe) -> dict[str, Any]:
    if recipe.architecture in ("modernvbert", "ultravbert"):
        return dict(recipe.options)
    sizes = _sizes()
    if recipe.architecture == "perceiver":
        sizes = {name: sizes[name] for name in ("vocab_size", "max_position_embeddings")}
    if recipe.architecture in ("funnel", "reformer"):
        # their layers are counted by other settings
        del sizes["num_hidden_layers"]
    return {**sizes, **recipe.options}


def _sizes() -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer()),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        # the pad id is 0 here, so that RoBERTa's kin reserve one position
        "max_position_embeddings": POSITIONS,
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
    }


_TWO_STACKS = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "decoder_start_token_id": 3,
}
_DISENTANGLED = {"relative_attention": True, "pos_att_type": "p2c|c2p"}
_MODERN = {"local_attention": 8, "global_attn_every_n_layers": 2, "decoder_bias": True}
_ULTRA = {
    "layer_types": ["sliding_attention", "full_attention"],
    "sliding_window": 6,
    "prediction_head_size": 24,
}
_REFORMER = {
    "attention_head_size": 8,
    "attn_layers": ["local", "lsh"],
    "axial_pos_shape": [16, 12],
    "axial_pos_embds_dim": [16, 16],
    "feed_forward_size": 48,
    "local_attn_chunk_length": 8,
    # blanks in two chunks see each other both ways
    "local_num_chunks_after": 1,
    "lsh_attn_chunk_length": 8,
    "is_decoder": False,
    "hash_seed": 3,
    "num_buckets": 4,
}
_LONG_ROPE = {
    "rope_type": "longrope",
    "rope_theta": 10_000.0,
    "original_max_position_embeddings": 64,
    "short_factor": [1.0] * 4,
    "long_factor": [1.5, 2.0, 2.5, 3.0],
}


def _sees_too(text_model: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """A text model beside a tiny one of images."""
    eye = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    eye |= {"intermediate_size": 16, "image_size": 16, "patch_size": 4}
    return {
        "text_config": {"model_type": text_model, **_sizes(), **options},
        "vision_config": {"model_type": "siglip_vision_model", **eye},
        "pixel_shuffle_factor": 2,
        "image_token_id": len(tokenizer()) - 1,
    }


# what an architecture needs beyond the common sizes
_OPTIONS: dict[str, dict[str, Any]] = {
    "albert": {"embedding_size": 16},
    "bart": _TWO_STACKS,
    # 150 tokens are more than the 36 up to which it attends to everything
    "big_bird": {"block_size": 4, "num_random_blocks": 2},
    "convbert": {"embedding_size": 16, "conv_kernel_size": 3},
    "deberta": _DISENTANGLED,
    "deberta-v2": _DISENTANGLED,
    "electra": {"embedding_size": 16},
    "esm": {"mask_token_id": 4, "position_embedding_type": "rotary", "token_dropout": True},
    "esmc": {"mask_token_id": 4},
    "eurobert": {"mask_token_id": 4},
    "funnel": {
        "d_model": 32,
        "n_head": 4,
        "d_head": 8,
        "d_inner": 48,
        "block_sizes": [1, 1],
        "num_decoder_layers": 1,
    },
    "longformer": {"attention_window": 8},
    "luke": {"entity_vocab_size": 10, "entity_emb_size": 16},
    "mbart": _TWO_STACKS,
    "mobilebert": {"embedding_size": 16, "intra_bottleneck_size": 16},
    "modernbert": _MODERN,
    "modernvbert": _sees_too("modernbert", _MODERN),
    "mvp": _TWO_STACKS,
    "neomme": {
        "embedding_rank": 16,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "sliding_window": 8,
        "patch_size": 4,
        "embedding_dim": 8,
    },
    # as published: as many landmarks as a segment has tokens, which is plain attention
    "nystromformer": {"num_landmarks": 8, "segment_means_seq_len": 8, "conv_kernel_size": 5},
    "perceiver": {
        "d_model": 32,
        "d_latents": 32,
        "num_latents": 24,
        "num_self_attends_per_block": 2,
        "num_self_attention_heads": 4,
        "num_cross_attention_heads": 4,
        "qk_channels": 32,
        "v_channels": 32,
    },
    "reformer": _REFORMER,
    "rembert": {"input_embedding_size": 16, "output_embedding_size": 24},
    "roc_bert": {
        "pronunciation_embed_dim": 8,
        "pronunciation_vocab_size": 20,
        "shape_embed_dim": 8,
        "shape_vocab_size": 20,
    },
    "roformer": {"embedding_size": 16},
    "squeezebert": {"embedding_size": 32},
    "ultrabert": _ULTRA,
    "ultravbert": _sees_too("ultrabert", _ULTRA),
    "xmod": {"languages": ["en_XX", "de_DE"], "default_language": "en_XX"},
}

_SENTENCES = {
    # mra2_attention returns zeros where its CUDA kernel is missing
    "mra": r"MraForMaskedLM does not read its context",
    # it answers at all positions that it knows, whatever the length of the text
    "perceiver": r"PerceiverForMaskedLM returns logits of shape \(\d+, 192, \d+\) .*fixed length",
}
# MobileBERT's head multiplies by two weights at once and never calls the layer that it names
_DENSE = {"mobilebert"}
# where attention averages over a long text, one token of it hardly moves another
_SPREADS = {"layoutlm": 0.6}

# the same architectures with settings that compute something else
_VARIANTS: dict[str, Recipe] = {
    "big_bird, full attention": Recipe(
        "big_bird", {**_OPTIONS["big_bird"], "attention_type": "original_full"}
    ),
    "deberta-v2, newer head": Recipe("deberta-v2", {**_DISENTANGLED, "legacy": False}, dense=True),
    "eurobert, frequencies by length": Recipe("eurobert", {"rope_parameters": _LONG_ROPE}),
    "nystromformer, landmarks": Recipe(
        "nystromformer",
        {"num_landmarks": 4, "segment_means_seq_len": 64, "conv_kernel_size": 5},
        # the reshape in its attention fits texts of 64 tokens and no other
        sentence=r"NystromformerForMaskedLM does not run as a masked LM: shape",
    ),
    "reformer, no hashing": Recipe("reformer", {**_REFORMER, "attn_layers": ["local", "local"]}),
    "reformer, other hashes at every pass": Recipe(
        "reformer",
        {**_REFORMER, "hash_seed": None},
        sentence=r"ReformerForMaskedLM gives other logits .*same text",
    ),
    "reformer, buckets by the first text": Recipe("reformer", {**_REFORMER, "num_buckets": None}),
    "xmod, no language": Recipe(
        "xmod",
        {"languages": ["en_XX", "de_DE"]},
        sentence=r"XmodForMaskedLM does not run as a masked LM: Input language unknown",
    ),
    "yoso, hashing": Recipe(
        "yoso",
        {"use_expectation": False},
        # its hashing exists as a CUDA kernel alone
        sentence=r"YosoForMaskedLM does not run as a masked LM: ",
    ),
}

RECIPES: dict[str, Recipe] = {
    **{
        name: Recipe(
            name,
            _OPTIONS.get(name, {}),
            sentence=_SENTENCES.get(name),
            dense=name in _DENSE,
            spread=_SPREADS.get(name, 0.4),
        )
        for name in CLASSES
    },
    **_VARIANTS,
}
