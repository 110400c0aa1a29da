"""Explicit joint distributions over several blanks, from any masked language model.

`import unmask` imports neither torch nor transformers: names are resolved when first used.
"""

from typing import TYPE_CHECKING

from unmask.lazy import lazy_names

__version__ = "0.1.0"

if TYPE_CHECKING:
    from unmask.cloze import Cloze
    from unmask.conditional import DenseLogits, FactoredLogits
    from unmask.constructions import CONSTRUCTIONS, construct, register
    from unmask.costs.cost import Cost
    from unmask.elicit import Settings
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
    from unmask.fills import Fill
    from unmask.joint import Joint
    from unmask.language_model import LanguageModel
    from unmask.loading import load
    from unmask.metrics import PairMetrics, pair_metrics, perplexity
    from unmask.mutations import interaction_map, mutation_effect, mutation_effects
    from unmask.pipelines import JointFillMaskPipeline
    from unmask.progress import Progress
    from unmask.sampling.samples import Samples
    from unmask.sentences.scoring import log_ratios, score_texts
    from unmask.sources import MaskedMarginals
    from unmask.support import Support
    from unmask.tables import PairTables
    from unmask.tables_file import load_tables, save_tables
    from unmask.trust import incompatibility

_HOME = {
    "CONSTRUCTIONS": "constructions",
    "Cloze": "cloze",
    "ClozeError": "errors",
    "CorpusError": "errors",
    "Cost": "costs.cost",
    "DenseLogits": "conditional",
    "FactoredLogits": "conditional",
    "Fill": "fills",
    "Joint": "joint",
    "JointFillMaskPipeline": "pipelines",
    "LanguageModel": "language_model",
    "MaskedMarginals": "sources",
    "MemoryLimitError": "errors",
    "MethodError": "errors",
    "ModelError": "errors",
    "NumericsError": "errors",
    "PairMetrics": "metrics",
    "PairTables": "tables",
    "PiecesWarning": "errors",
    "Progress": "progress",
    "Samples": "sampling.samples",
    "Settings": "elicit",
    "StoreError": "errors",
    "Support": "support",
    "SupportError": "errors",
    "TablesFileError": "errors",
    "UnknownTokenWarning": "errors",
    "UnmaskError": "errors",
    "UnmaskWarning": "errors",
    "construct": "constructions",
    "incompatibility": "trust",
    "interaction_map": "mutations",
    "load": "loading",
    "load_tables": "tables_file",
    "log_ratios": "sentences.scoring",
    "mutation_effect": "mutations",
    "mutation_effects": "mutations",
    "pair_metrics": "metrics",
    "perplexity": "metrics",
    "register": "constructions",
    "save_tables": "tables_file",
    "score_texts": "sentences.scoring",
}

__all__ = [
    "CONSTRUCTIONS",
    "Cloze",
    "ClozeError",
    "CorpusError",
    "Cost",
    "DenseLogits",
    "FactoredLogits",
    "Fill",
    "Joint",
    "JointFillMaskPipeline",
    "LanguageModel",
    "MaskedMarginals",
    "MemoryLimitError",
    "MethodError",
    "ModelError",
    "NumericsError",
    "PairMetrics",
    "PairTables",
    "PiecesWarning",
    "Progress",
    "Samples",
    "Settings",
    "StoreError",
    "Support",
    "SupportError",
    "TablesFileError",
    "UnknownTokenWarning",
    "UnmaskError",
    "UnmaskWarning",
    "construct",
    "incompatibility",
    "interaction_map",
    "load",
    "load_tables",
    "log_ratios",
    "mutation_effect",
    "mutation_effects",
    "pair_metrics",
    "perplexity",
    "register",
    "save_tables",
    "score_texts",
]


__getattr__ = lazy_names(__name__, _HOME)


def __dir__() -> list[str]:
    """The public names."""
    return sorted([*__all__, "__version__"])
