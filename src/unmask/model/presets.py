"""What masked-diffusion models do not say of themselves: which id is the mask, and a shift.

Imports nothing. Kinds are what `model_type` in config.json says, in lower case.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """How a kind of model is loaded where neither the caller nor its tokenizer decides it."""

    mask_id: int | None = None
    shift: bool = False


PRESETS = {
    # LLaDA: the mask is in no configuration
    "llada": Preset(mask_id=126336),
    # Dream: position i-1 predicts token i
    "dream": Preset(mask_id=151666, shift=True),
}


def preset_of(config: object) -> Preset:
    """The preset of a model's configuration, one of nothing for all other kinds."""
    own = getattr(config, "mask_token_id", None)
    preset = PRESETS.get(str(getattr(config, "model_type", "")).lower(), Preset())
    return Preset(own, preset.shift) if isinstance(own, int) else preset
