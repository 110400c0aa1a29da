"""Where a worker gets its model, what runs it, and whether it is the one that was planned for."""

from dataclasses import asdict, dataclass

import tokenizers
import torch
import transformers

from unmask import __version__
from unmask.errors import ModelError
from unmask.jobs.identify import identify
from unmask.jobs.model_identity import ModelIdentity, model_changes
from unmask.language_model import LanguageModel
from unmask.loading import load
from unmask.model import devices
from unmask.printable import printable

SOFTWARE = ", ".join(
    [
        f"unmask {__version__}",
        f"torch {torch.__version__}",
        f"transformers {transformers.__version__}",
        f"tokenizers {tokenizers.__version__}",
    ]
)


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """Where a worker gets its model, and how it loads it; not part of a plan."""

    place: str
    device: str | None = None
    dtype: str = "float32"
    revision: str | None = None
    trust_remote_code: bool = False
    allow_pickle: bool = False
    mask_id: int | None = None
    shift: bool | None = None
    time: str | None = None

    def load(self) -> LanguageModel:
        """The model itself."""
        options = asdict(self)
        return load(options.pop("place"), **options)


def check_model(lm: LanguageModel, planned: ModelIdentity) -> None:
    """Reject another model than the planned one: a name or a folder does not prove identity."""
    here = identify(lm, name=planned.name, dtype=planned.dtype)
    for change in model_changes(planned, here):
        raise ModelError(
            f"{printable(lm.name)} is another model here than where the run was planned ({change});"
            " give every machine the same model"
        )


def device_name(lm: LanguageModel) -> str:
    """What the model runs on."""
    return devices.device_name(lm.model.device)
