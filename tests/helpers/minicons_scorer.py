"""minicons over a model and tokenizer that are here."""

from typing import Any

import unmask


def minicons_scorer(lm: unmask.LanguageModel) -> Any:
    """Its scorer of masked models; minicons 0.3.39 calls what transformers 5 has no more."""
    from minicons.scorer import MaskedLMScorer

    network: Any = lm.model
    tokenizer: Any = lm.tokenizer
    tokenizer.batch_encode_plus = tokenizer.__call__
    return MaskedLMScorer(network.model, "cpu", tokenizer=tokenizer)
