"""Explicit joint distributions over several blanks, from most masked language models.

`import unmask` imports neither torch nor transformers: names are resolved when first used.
"""

from typing import TYPE_CHECKING

from unmask.lazy import lazy_names

__version__ = "0.1.0"

if TYPE_CHECKING:
    from unmask.constructions import CONSTRUCTIONS as CONSTRUCTIONS
    from unmask.constructions import construct as construct
    from unmask.constructions import register as register
    from unmask.constructions.needs import Needs as Needs
    from unmask.errors import UnmaskError as UnmaskError
    from unmask.evaluation.request import evaluate as evaluate
    from unmask.joints.agreement import Agreement as Agreement
    from unmask.joints.fill import Fill as Fill
    from unmask.joints.joint import Joint as Joint
    from unmask.joints.metrics import PairMetrics as PairMetrics
    from unmask.joints.metrics import pair_metrics as pair_metrics
    from unmask.language_model import LanguageModel as LanguageModel
    from unmask.loading import load as load
    from unmask.progress import Progress as Progress
    from unmask.queries.cost import Cost as Cost
    from unmask.queries.decode.head import DependenceHead as DependenceHead
    from unmask.queries.dependence.dependence_map import Dependence as Dependence
    from unmask.queries.dependence.dependence_map import DependenceMap as DependenceMap
    from unmask.queries.dependence.dependence_map import Place as Place
    from unmask.results import to_pandas as to_pandas
    from unmask.sequences.consistency.result import Consistency as Consistency
    from unmask.sequences.consistency.statistics import Statistic as Statistic
    from unmask.sequences.scores import LogRatio as LogRatio
    from unmask.sequences.scores import TextScore as TextScore
    from unmask.sequences.scores import WordScore as WordScore
    from unmask.sequences.word_pairs import PairScore as PairScore
    from unmask.settings import Settings as Settings
    from unmask.settings import Sketch as Sketch
    from unmask.tables.conditional import DenseLogits as DenseLogits
    from unmask.tables.conditional import FactoredLogits as FactoredLogits
    from unmask.tables.marginals import MaskedMarginals as MaskedMarginals
    from unmask.tables.pair_tables import PairTables as PairTables
    from unmask.text.cloze import Cloze as Cloze
    from unmask.text.support import Support as Support

_HOMES = {
    "unmask.constructions": ("CONSTRUCTIONS", "construct", "register"),
    "unmask.constructions.needs": ("Needs",),
    "unmask.errors": ("UnmaskError",),
    "unmask.evaluation.request": ("evaluate",),
    "unmask.joints.agreement": ("Agreement",),
    "unmask.joints.fill": ("Fill",),
    "unmask.joints.joint": ("Joint",),
    "unmask.joints.metrics": ("PairMetrics", "pair_metrics"),
    "unmask.language_model": ("LanguageModel",),
    "unmask.loading": ("load",),
    "unmask.progress": ("Progress",),
    "unmask.queries.cost": ("Cost",),
    "unmask.queries.dependence.dependence_map": ("Dependence", "DependenceMap", "Place"),
    "unmask.queries.decode.head": ("DependenceHead",),
    "unmask.results": ("to_pandas",),
    "unmask.sequences.consistency.result": ("Consistency",),
    "unmask.sequences.consistency.statistics": ("Statistic",),
    "unmask.sequences.scores": ("LogRatio", "TextScore", "WordScore"),
    "unmask.sequences.word_pairs": ("PairScore",),
    "unmask.settings": ("Settings", "Sketch"),
    "unmask.tables.conditional": ("DenseLogits", "FactoredLogits"),
    "unmask.tables.pair_tables": ("PairTables",),
    "unmask.tables.marginals": ("MaskedMarginals",),
    "unmask.text.cloze": ("Cloze",),
    "unmask.text.support": ("Support",),
}
# what is public beside `__all__`, each a module of its own
_MODULES = ("errors", "harness", "pipelines", "plots")
__all__, __getattr__ = lazy_names(__name__, _HOMES, _MODULES)


def __dir__() -> list[str]:
    """The public names and modules."""
    return sorted([*__all__, *_MODULES, "__version__"])
