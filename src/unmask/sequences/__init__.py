"""Whole texts scored by a masked language model: by themselves, in pairs, or against each other.

    texts -> texts:        ids, the positions that are scored, words; or one reason
          -> scoring:      a method's options checked; texts of one length run together
          -> a method:     pll, unmasking, elbo, and paths for two texts: which tokens are masked
          -> passes:       rows of forward passes, and scores from what the model gives there
          -> scores:       values, which `outputs` writes as rows, `minimal_pairs` counts

`word_pairs` scores two words in the blanks of a text, `consistency` how far a model contradicts
itself.
"""
