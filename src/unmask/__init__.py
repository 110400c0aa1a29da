"""Explicit joint distributions over several blanks, from most masked language models.

`import unmask` imports neither torch nor transformers: names are resolved when first used.
"""

from typing import TYPE_CHECKING

from unmask.lazy import import_after, lazy_names

__version__ = "0.1.0"

if TYPE_CHECKING:
    from unmask.constructions import CONSTRUCTIONS, construct, register
    from unmask.constructions.incompatibility import incompatibility
    from unmask.constructions.needs import Needs
    from unmask.errors import (
        ClozeError,
        CorpusError,
        MemoryLimitError,
        MethodError,
        ModelError,
        NumericsError,
        PiecesWarning,
        StoreError,
        SupportError,
        TablesFileError,
        UnknownTokenWarning,
        UnmaskError,
        UnmaskWarning,
    )
    from unmask.joints.fill import Fill
    from unmask.joints.joint import Joint
    from unmask.joints.metrics import PairMetrics, pair_metrics, perplexity
    from unmask.language_model import LanguageModel
    from unmask.loading import load
    from unmask.pipelines import JointFillMaskPipeline
    from unmask.progress import Progress
    from unmask.queries.costs.cost import Cost
    from unmask.queries.dependence.dependence_map import DependenceMap
    from unmask.queries.sampling.samples import Samples
    from unmask.sequences.landscapes import Landscape, landscape
    from unmask.sequences.mutations import interaction_map, mutation_effect, mutation_effects
    from unmask.sequences.scoring import log_ratios, score_texts
    from unmask.sequences.variants.scoring import VariantScore, score_variants
    from unmask.sequences.word_pairs import score_pairs
    from unmask.settings import Settings, Sketch
    from unmask.tables.conditional import DenseLogits, FactoredLogits
    from unmask.tables.file import load_tables, save_tables
    from unmask.tables.pair_tables import PairTables
    from unmask.tables.source import MaskedMarginals
    from unmask.text.cloze import Cloze
    from unmask.text.support import Support

_HOME = {
    "CONSTRUCTIONS": "constructions",
    "Cloze": "text.cloze",
    "ClozeError": "errors",
    "CorpusError": "errors",
    "Cost": "queries.costs.cost",
    "DenseLogits": "tables.conditional",
    "DependenceMap": "queries.dependence.dependence_map",
    "FactoredLogits": "tables.conditional",
    "Fill": "joints.fill",
    "Joint": "joints.joint",
    "JointFillMaskPipeline": "pipelines",
    "Landscape": "sequences.landscapes",
    "LanguageModel": "language_model",
    "MaskedMarginals": "tables.source",
    "MemoryLimitError": "errors",
    "MethodError": "errors",
    "ModelError": "errors",
    "Needs": "constructions.needs",
    "NumericsError": "errors",
    "PairMetrics": "joints.metrics",
    "PairTables": "tables.pair_tables",
    "PiecesWarning": "errors",
    "Progress": "progress",
    "Samples": "queries.sampling.samples",
    "Settings": "settings",
    "Sketch": "settings",
    "StoreError": "errors",
    "Support": "text.support",
    "SupportError": "errors",
    "TablesFileError": "errors",
    "UnknownTokenWarning": "errors",
    "UnmaskError": "errors",
    "UnmaskWarning": "errors",
    "VariantScore": "sequences.variants.scoring",
    "construct": "constructions",
    "incompatibility": "constructions.incompatibility",
    "interaction_map": "sequences.mutations",
    "landscape": "sequences.landscapes",
    "load": "loading",
    "load_tables": "tables.file",
    "log_ratios": "sequences.scoring",
    "mutation_effect": "sequences.mutations",
    "mutation_effects": "sequences.mutations",
    "pair_metrics": "joints.metrics",
    "perplexity": "joints.metrics",
    "register": "constructions",
    "save_tables": "tables.file",
    "score_pairs": "sequences.word_pairs",
    "score_texts": "sequences.scoring",
    "score_variants": "sequences.variants.scoring",
}

__all__ = [
    "CONSTRUCTIONS",
    "Cloze",
    "ClozeError",
    "CorpusError",
    "Cost",
    "DenseLogits",
    "DependenceMap",
    "FactoredLogits",
    "Fill",
    "Joint",
    "JointFillMaskPipeline",
    "Landscape",
    "LanguageModel",
    "MaskedMarginals",
    "MemoryLimitError",
    "MethodError",
    "ModelError",
    "Needs",
    "NumericsError",
    "PairMetrics",
    "PairTables",
    "PiecesWarning",
    "Progress",
    "Samples",
    "Settings",
    "Sketch",
    "StoreError",
    "Support",
    "SupportError",
    "TablesFileError",
    "UnknownTokenWarning",
    "UnmaskError",
    "UnmaskWarning",
    "VariantScore",
    "construct",
    "incompatibility",
    "interaction_map",
    "landscape",
    "load",
    "load_tables",
    "log_ratios",
    "mutation_effect",
    "mutation_effects",
    "pair_metrics",
    "perplexity",
    "register",
    "save_tables",
    "score_pairs",
    "score_texts",
    "score_variants",
]


__getattr__ = lazy_names(__name__, _HOME)
# the task `joint-fill-mask`, for whoever uses transformers' pipelines
import_after("transformers.pipelines", "unmask.pipelines")


def __dir__() -> list[str]:
    """The public names."""
    return sorted([*__all__, "__version__"])
