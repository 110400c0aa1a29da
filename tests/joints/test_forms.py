"""Forms that do not fit their tables are rejected, not expanded."""

import pytest
import torch

from unmask.errors import MethodError
from unmask.joints.form_engine import form_joint
from unmask.joints.forms import Product, Sum
from unmask.tables.protocol import Tables

SHAPE = (4, 3, 5)


class Uniform(Tables):
    """Tables of three blanks of which only the shape matters."""

    shape, supports, law = SHAPE, (), None

    def diagnostics(self):
        return {}

    def log_given_others(self, outcome, rows=slice(None)):
        return torch.zeros(SHAPE, dtype=torch.float64)[rows]


def along(axis: int, size: int | None = None) -> torch.Tensor:
    shape = [1, 1, 1]
    shape[axis] = SHAPE[axis] if size is None else size
    return torch.zeros(shape, dtype=torch.float64)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (Product((0.5, 0.5), (along(0), along(1))), "2 powers for 3 blanks"),
        (Product((0.0, 0.0, 0.0), (along(0), along(1))), "depends on blank 2"),
        (Product((1.0, 1.0, 1.0), (along(0)[..., 0],)), r"of \(4, 1\) for axes"),
        (Product((1.0, 1.0, 1.0), (along(0, 2),)), r"of \(2, 1, 1\) for axes"),
        (Sum((along(0), along(1))), "2 log_times for 3 blanks"),
        (Sum((along(1), along(0), along(0)), (along(1),) * 2), "2 log_over for 3 blanks"),
    ],
)
def test_a_form_that_does_not_cover_its_axes_is_rejected(form, message):
    with pytest.raises(MethodError, match=message):
        form_joint(form, Uniform(), method="mine", diagnostics={})


def test_a_form_that_covers_them_is_a_joint():
    form = Product((0.0, 0.0, 0.0), (along(0), along(1), along(2)))
    scores = form.scores(Uniform(), slice(None))
    assert tuple(scores.shape) == SHAPE
