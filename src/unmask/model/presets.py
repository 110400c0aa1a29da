"""What masked-diffusion models do not say of themselves: which id is the mask, and a shift.

Imports nothing of torch. A model is known by its class: LLaDA's `model_type` is also that of a
mixture of experts with another vocabulary.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """How a class of models is loaded where neither the caller nor its tokenizer decides it."""

    mask_id: int | None = None
    shift: bool = False


PRESETS = {
    # LLaDA: the mask is in no configuration
    "LLaDAModelLM": Preset(mask_id=126336),
    # Dream: position i-1 predicts token i
    "DreamModel": Preset(mask_id=151666, shift=True),
}


def preset_of(model: object) -> Preset:
    """The preset of a model, with the mask id of its configuration if that has one."""
    own = getattr(getattr(model, "config", None), "mask_token_id", None)
    preset = PRESETS.get(type(model).__name__, Preset())
    return Preset(own, preset.shift) if isinstance(own, int) else preset
