"""The model's own answer: one independent guess per blank, multiplied."""

from unmask.constructions.construction import Construction
from unmask.constructions.needs import Needs
from unmask.joints.form_engine import form_joint
from unmask.joints.forms import Product
from unmask.joints.joint import Joint
from unmask.tables.protocol import Tables


def mlm(tables: Tables) -> Joint:
    """Multiply the fully masked distributions (Torroba Hennigen & Kim 2023, "MLM").

    One forward pass, and no dependence between the blanks: the baseline.
    """
    blanks = range(len(tables.shape))
    form = Product((0.0,) * len(blanks), tuple(tables.log_masked(t) for t in blanks))
    return form_joint(form, tables, method="mlm", diagnostics={})


MLM = Construction(
    mlm,
    "one independent guess per blank, multiplied: the baseline",
    needs=lambda shape, options: Needs(masked=True),
    sketched=lambda _, masked: Product((0.0, 0.0), masked()),
    unsketched="",
)
