"""The two orders of filling: blank 1 first or blank 0 first, averaged."""

from unmask.errors import MethodError
from unmask.joints.forms import Product
from unmask.joints.joint import Joint
from unmask.joints.lazy_pair import Mixture
from unmask.joints.pair_joint import PairJoint
from unmask.printable import quoted
from unmask.tables.pair_tables import PairTables

MEANS = ("arithmetic", "geometric")


def orders(tables: PairTables, *, mean: str = "arithmetic") -> Joint:
    """Average the factorisations m_b q(a | b) and m_a q(b | a), m the doubly masked marginals.

    Each is what one writes down when filling one blank after the other. Their arithmetic mean is
    normalised as it stands: the log-probability of a pair costs three forward passes, and ranking
    or sampling asks only for the contexts it needs. The geometric mean needs both tables, for its
    normaliser.
    """
    check_mean(mean)
    log_a, log_b = tables.masked.log_a, tables.masked.log_b
    if mean == "arithmetic":
        return Mixture(tables, log_a, log_b, method="orders", diagnostics={"mean": mean})
    tables.both()
    form = Product(0.5, 0.5, log_a / 2, log_b / 2)
    return PairJoint(form, tables, method="orders", diagnostics={"mean": mean})


def check_mean(mean: object) -> None:
    """Refuse a mean that is not one of the two."""
    if mean not in MEANS:
        raise MethodError(f"mean is {' or '.join(MEANS)}, not {quoted(mean)}")
