"""The numbers that the paper reports, shown beside measured numbers of the same setting.

Table 1 of Lucas Torroba Hennigen and Yoon Kim, "Deriving Language Models from Masked Language
Models" (ACL 2023), https://aclanthology.org/2023.acl-short.99/: 1,000 examples per cell, over the
whole vocabulary. The paper gives neither its examples, nor the split, nor any spread, so a measured
number is not expected to agree beyond the sampling error of both.
"""

from itertools import product
from typing import NamedTuple

from unmask.evaluation.rows import SKETCHED_VOCABULARY, WHOLE_VOCABULARY, Group

CITATION = "Torroba Hennigen & Kim (2023), Table 1"
MEASURES = ("unary_ppl", "pairwise_ppl", "all_kl", "gold_kl")
# models by the hub's older names, corpora as the loaders name them
_HUB_OWNER = "google-bert/"
_CORPORA = {"stanfordnlp/snli, test": "snli", "EdinburghNLP/xsum, test": "xsum"}


class Entry(NamedTuple):
    """The key of a number of Table 1; schemes have this library's names."""

    corpus: str
    mask: str
    model: str
    scheme: str
    measure: str


# model, corpus, scheme; U-PPL, P-PPL, A-KL, G-KL of random pairs; the same of contiguous pairs
_LINES = """\
bert-base-cased  snli mlm       11.22 19.01 1.080 0.547 13.78    74.68 4.014 1.876
bert-base-cased  snli mrf-logit 13.39 71.44 0.433 0.267 23.45 13568.17 1.543 0.607
bert-base-cased  snli mrf       12.30 21.65 0.658 0.179 18.35   126.05 1.967 0.366
bert-base-cased  snli hcb       12.51 22.62 0.593 0.168 17.71   589.02 2.099 0.416
bert-base-cased  snli ag        10.76 12.68 0.007 0.085 13.26    21.59 0.018 0.181
bert-base-cased  xsum mlm        4.88  6.12 0.404 0.227  4.91    39.33 4.381 2.128
bert-base-cased  xsum mrf-logit  5.17  9.12 0.148 0.085  6.55  2209.94 1.561 0.383
bert-base-cased  xsum mrf        5.00  6.23 0.262 0.049  5.53    47.62 2.242 0.185
bert-base-cased  xsum hcb        5.08  6.21 0.256 0.052  6.46   174.32 2.681 0.328
bert-base-cased  xsum ag         5.00  5.29 0.003 0.044  5.27     8.42 0.016 0.143
bert-large-cased snli mlm        9.50 18.57 1.374 0.787 10.42   104.12 4.582 2.463
bert-large-cased snli mrf-logit 11.52 76.23 0.449 0.276 15.43  8536.92 1.470 0.543
bert-large-cased snli mrf       10.57 19.54 0.723 0.193 13.07    93.33 1.992 0.359
bert-large-cased snli hcb       10.71 20.70 0.797 0.215 14.43   458.25 2.563 0.552
bert-large-cased snli ag         8.57 10.11 0.007 0.097  9.64    15.64 0.019 0.173
bert-large-cased xsum mlm        3.80  5.67 0.530 0.413  3.91   103.86 5.046 3.276
bert-large-cased xsum mrf-logit  3.94  7.06 0.156 0.068  4.62  1328.20 1.441 0.290
bert-large-cased xsum mrf        3.87  4.94 0.322 0.036  4.16    36.66 2.258 0.145
bert-large-cased xsum hcb        3.91  5.14 0.346 0.059  5.67   164.15 2.954 0.400
bert-large-cased xsum ag         3.88  4.13 0.003 0.042  4.21     6.62 0.016 0.126
"""


TABLE = {
    Entry(corpus, mask, model, scheme, measure): float(numbers[column])
    for model, corpus, scheme, *numbers in map(str.split, _LINES.splitlines())
    for column, (mask, measure) in enumerate(product(("random", "contiguous"), MEASURES))
}


def published(group: Group, measure: str) -> float | None:
    """The paper's number for the same model, corpus, mask and construction; None if it has none."""
    # estimated or not, these are the same numbers
    if group.support not in (WHOLE_VOCABULARY, SKETCHED_VOCABULARY):
        return None
    model = group.model.removeprefix(_HUB_OWNER)
    corpus = _CORPORA.get(group.corpus, group.corpus)
    return TABLE.get(Entry(corpus, group.mask, model, group.construction, measure))
