"""A training run on disk: weights and AdamW's moments by name, as safetensors, replaced whole.

No pickle anywhere: a state from a stranger can at worst be wrong.
"""

import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn
from torch.optim import AdamW

import unmask
from unmask.printable import quoted

_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def save_state(path: Path, model: nn.Module, optimizer: AdamW, about: dict[str, Any]) -> None:
    """Write beside the old state and then take its place: a crash leaves one or the other."""
    tensors = {}
    # named_parameters counts tied weights once
    for name, parameter in model.named_parameters():
        tensors[f"model/{name}"] = parameter.detach()
        for moment in _MOMENTS:
            if moment in optimizer.state[parameter]:
                tensors[f"{moment}/{name}"] = optimizer.state[parameter][moment]
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".partial")
    save_file(tensors, fresh, metadata={"about": json.dumps(about)})
    with fresh.open("rb") as written:
        os.fsync(written.fileno())
    fresh.replace(path)


def read_about(path: Path) -> dict[str, Any] | None:
    """What the state says of itself; None if there is none."""
    if not path.exists():
        return None
    try:
        with safe_open(path, "pt") as file:
            about = json.loads((file.metadata() or {})["about"])
    except (SafetensorError, KeyError, ValueError, OSError):
        raise unmask.UnmaskError(
            f"{quoted(str(path), limit=150)} holds no training run; remove it to start anew"
        ) from None
    assert isinstance(about, dict)
    return about


def load_state(path: Path, model: nn.Module, optimizer: AdamW) -> None:
    """Weights and moments as they were."""
    with safe_open(path, "pt") as file, torch.no_grad():
        known = set(file.keys())
        for name, parameter in model.named_parameters():
            parameter.copy_(file.get_tensor(f"model/{name}"))
            optimizer.state[parameter] = {
                moment: file.get_tensor(f"{moment}/{name}")
                for moment in _MOMENTS
                if f"{moment}/{name}" in known
            }
