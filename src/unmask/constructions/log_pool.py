"""The geometric mean of the factorisations at the stationary law of pseudo-Gibbs sampling."""

from unmask.constructions.construction import Construction
from unmask.joints.form_engine import form_joint
from unmask.joints.forms import Product
from unmask.joints.joint import Joint
from unmask.tables.law import Factors
from unmask.tables.protocol import Tables
from unmask.tables.stationary import stationary_law


def log_pool(tables: Tables) -> Joint:
    """Multiply each blank's conditional and the law of the others, to the power 1 / k; renormalise.

    The law is where resampling one blank given the others settles (Heckerman et al. 2000), so that
    for two blanks it is the geometric mean of q(a | b) r_b and q(b | a) r_a. A fill must be likely
    whichever blank is drawn last (logarithmic opinion pool, Genest & Zidek 1986).
    """
    law = stationary_law(tables)
    form = _form(law.log_others)
    return form_joint(form, tables, method="log-pool", diagnostics=law.diagnostics())


def _form(log_others: Factors, _: object = None) -> Product:
    blanks = len(log_others)
    return Product((1 / blanks,) * blanks, tuple(log / blanks for log in log_others))


LOG_POOL = Construction(
    log_pool,
    "a fill must be likely whichever blank is drawn last",
    sketched=_form,
    unsketched="",
)
