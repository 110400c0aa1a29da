"""A Markov random field whose potential is the sum of all conditionals, or of their logits."""

from unmask.constructions.construction import Construction, only_conditionals
from unmask.joints.form_engine import form_joint
from unmask.joints.forms import Product
from unmask.joints.joint import Joint
from unmask.tables.protocol import Tables


def mrf(tables: Tables) -> Joint:
    """Multiply all conditionals and renormalise: the MRF of Wang & Cho (2019).

    Counts the association of the blanks more than once, so it over-rewards locked pairs, and its
    conditionals differ from the model's even where those are compatible
    (Torroba Hennigen & Kim 2023, appendix B).
    """
    form = Product((1.0,) * len(tables.shape))
    return form_joint(form, tables, method="mrf", diagnostics={})


def mrf_logit(tables: Tables) -> Joint:
    """Add all raw logits and renormalise: MRF_L of Torroba Hennigen & Kim (2023).

    Not a function of the model's distributions: adding a constant to the logits of one context,
    which softmax ignores, changes this joint. Included for comparison only.
    """
    blanks = range(len(tables.shape))
    # logits are log-probabilities and the normaliser that was taken from them
    factors = tuple(tables.log_normalizer(t) for t in blanks)
    form = Product((1.0,) * len(blanks), factors)
    return form_joint(form, tables, method="mrf-logit", diagnostics={})


_ELSEWHERE = "much of its mass lies on fills that are absurd in the text, and a sketch misses them"

MRF = Construction(
    mrf,
    "all conditionals multiplied and renormalised",
    only_conditionals,
    unsketched=_ELSEWHERE,
)
MRF_LOGIT = Construction(
    mrf_logit,
    "all raw logits added and renormalised: for comparison",
    only_conditionals,
    unsketched=_ELSEWHERE,
)
