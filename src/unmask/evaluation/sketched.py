"""One example from a sketch of the vocabulary: its metrics, with their standard errors."""

from collections.abc import Mapping
from typing import Any

from unmask.constructions.incompatibility import agreement
from unmask.joints.agreement import Agreement
from unmask.joints.joint import Joint
from unmask.joints.metrics import pair_metrics
from unmask.queries.sketched import joints_at, tables_of
from unmask.settings import Sketch
from unmask.tables.pair_tables import PairTables

Numbers = dict[str, Any]


def sketched_metrics(
    methods: Mapping[str, Mapping[str, object]],
    whole: PairTables,
    sketch: Sketch,
    gold: tuple[int, int],
) -> tuple[dict[str, Joint], dict[str, Numbers], Agreement]:
    """Joints and their numbers by method, and J: the tables of the vocabulary are not elicited.

    The gold tokens are in the head, where masses are probabilities: metrics of the tables of masses
    are those of the vocabulary. All but A-KL, for most contexts of a vocabulary never run.
    """
    joints, pair = joints_at(methods, whole, sketch, gold)
    tables = tables_of(pair)
    metrics = pair_metrics(joints, tables, gold)
    numbers = {
        name: {
            **metrics[name].to_dict(),
            "all_kl": None,
            "pairwise_error": joint.standard_error(lambda one: one.log_prob(*gold) / 2),
            # that of mlm is the model's own, which has run
            "unary_error": 0.0 if name == "mlm" else joint.standard_error(_unary(gold)),
            "forward_passes": pair.forward_passes,
        }
        for name, joint in joints.items()
    }
    return joints, numbers, agreement(tables)


def _unary(gold: tuple[int, int]) -> Any:
    def mean(joint: Joint) -> float:
        each = (joint.conditional(t, given={1 - t: gold[1 - t]}).log_prob(gold[t]) for t in (0, 1))
        return sum(each) / 2

    return mean
