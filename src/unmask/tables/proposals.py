"""The tokens that each blank ranges over, where a caller leaves that to the model."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from unmask.arguments import whole_number
from unmask.errors import SupportError
from unmask.model.masked_lm import MaskedLM
from unmask.model.row_reader import RowReader
from unmask.names import SUPPORTS
from unmask.printable import quoted
from unmask.settings import Settings, Sketch
from unmask.tables.beams import grown
from unmask.tables.blank_reader import BlankReader
from unmask.tables.sizes import AFFORDABLE_ROWS
from unmask.text.candidates import check_blanks, choose
from unmask.text.cloze import Cloze
from unmask.text.support import Support

AUTO, _SKETCH = "auto", Sketch()
# so many forward passes are no more than a sketch would take
_FEW_PASSES = 1_000
# with fewer candidates per blank, a table leaves out too much to be worth its rows
_FEWEST = 8


@dataclass(frozen=True)
class Axes:
    """The tokens of every blank, and what it took to find them.

    The diagnostics of grown candidates have an estimate of the part of each blank's likely tokens
    that they hold.
    """

    supports: tuple[Support, ...]
    forward_passes: int = 0
    diagnostics: Mapping[str, object] = field(default_factory=dict)


def resolved(spec: object, blanks: int, vocabulary_size: int) -> object:
    """The meaning of "auto" where it has one: a sketch, or a vocabulary that is small."""
    if isinstance(spec, Sketch) and blanks > 2:
        if replace(spec, seed=0) == _SKETCH:
            # a seed asks for nothing that more blanks lack
            return AUTO
        raise SupportError(
            f"a sketch works with two blanks, and this text has {blanks}; give a number of "
            "candidates"
        )
    if blanks > 2 or not is_auto(spec):
        return spec
    return _SKETCH if blanks == 2 and 2 * vocabulary_size > _FEW_PASSES else "tokens"


def is_auto(spec: object) -> bool:
    """True if the tokens are left to the library."""
    return isinstance(spec, str) and spec == AUTO


def affordable_size(blanks: int) -> int | None:
    """The number of candidates per blank that tables can have within the rows; None if too few."""
    size = int((AFFORDABLE_ROWS / blanks) ** (1 / (blanks - 1)) + 1e-9)
    return size if size >= _FEWEST else None


def sizes_of(spec: object, blanks: int, vocabulary_size: int) -> dict[int, int]:
    """The numbers of candidates to be grown, by blank; empty if all are given."""
    if is_auto(spec):
        size = affordable_size(blanks) if blanks > 2 else None
        return {} if size is None else dict.fromkeys(range(blanks), min(size, vocabulary_size))
    if isinstance(spec, Mapping):
        check_blanks(spec, blanks)
        specs: dict[int, object] = {int(blank): of_blank for blank, of_blank in spec.items()}
    else:
        specs = dict.fromkeys(range(blanks), spec)
    sizes = {
        blank: size
        for blank, of_blank in specs.items()
        if (size := whole_number(of_blank)) is not None
    }
    for blank, size in sizes.items():
        if not 1 <= size <= vocabulary_size:
            raise SupportError(
                f"support asks for {quoted(size)} candidates of blank {quoted(blank)}; "
                f"this model has 1 to {vocabulary_size}"
            )
    return sizes


def choose_axes(
    model: MaskedLM, whole: Support, cloze: Cloze, spec: object, settings: Settings
) -> Axes:
    """The tokens of every blank: those that were given, or as many as requested, grown."""
    blanks = len(cloze.positions)
    sizes, axes = _given(model, whole, spec, blanks)
    if not sizes:
        return Axes(axes)
    ordinary = choose("no-special", whole, model.special_ids)
    among = tuple(ordinary if blank in sizes else axis for blank, axis in enumerate(axes))
    reader = BlankReader(RowReader(model, settings), cloze, among)
    wanted = [min(sizes.get(blank, len(axis)), len(axis)) for blank, axis in enumerate(among)]
    supports, held = grown(reader, wanted)
    on_axes = tuple(supports[b] if b in sizes else axes[b] for b in range(blanks))
    diagnostics = {"candidates_from": "model", "candidates_mass": held}
    return Axes(on_axes, reader.forward_passes, diagnostics)


def placeholder_axes(
    model: MaskedLM, whole: Support, spec: object, blanks: int
) -> tuple[Support, ...]:
    """Axes of the sizes that would be chosen, without running the model: for what it will cost."""
    sizes, axes = _given(model, whole, spec, blanks)
    return tuple(
        Support(axis.ids[: sizes[b]], axis.names[: sizes[b]]) if b in sizes else axis
        for b, axis in enumerate(axes)
    )


def _given(
    model: MaskedLM, whole: Support, spec: object, blanks: int
) -> tuple[dict[int, int], tuple[Support, ...]]:
    """The numbers of candidates to be grown, by blank, and the tokens that others were given."""
    sizes = {} if isinstance(spec, Sketch) else sizes_of(spec, blanks, len(whole))
    if isinstance(spec, Mapping):
        # a blank that is not named has the whole vocabulary
        each = ["tokens" if t in sizes else spec.get(t, SUPPORTS[0]) for t in range(blanks)]
        return sizes, tuple(choose(axis, whole, model.special_ids) for axis in each)
    candidates = "tokens" if sizes or isinstance(spec, Sketch) or is_auto(spec) else spec
    return sizes, (choose(candidates, whole, model.special_ids),) * blanks
