"""A toy whose costs are counted by hand."""

from toy_lm import ToyMaskedLM, ToyTokenizer, toy_joint

import unmask

V = 13


def toy(**options: bool) -> unmask.LanguageModel:
    return unmask.LanguageModel(ToyMaskedLM(toy_joint(V, 3), **options), ToyTokenizer(V))
