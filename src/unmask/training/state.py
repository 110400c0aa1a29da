"""Weights and AdamW's moments on disk, by name, as safetensors, replaced whole.

No pickle: a state from a stranger can at worst be wrong.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import AdamW

from unmask.durable import explained, replacing
from unmask.errors import StoreError
from unmask.printable import quoted

_MOMENTS = ("step", "exp_avg", "exp_avg_sq")
_ABOUT = "about"


def new_optimizer(parameters: Mapping[str, nn.Parameter]) -> AdamW:
    """AdamW with weight decay on matrices alone; the rate is set at every step."""
    matrices = [p for p in parameters.values() if p.ndim > 1]
    vectors = [p for p in parameters.values() if p.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}]
    return AdamW([one for one in groups if one["params"]], lr=0.0, betas=(0.9, 0.98), eps=1e-6)


def save_weights(path: Path, module: nn.Module, facts: Mapping[str, Any]) -> None:
    """The weights alone."""
    _save(path, _weights(module), facts)


def save_state(path: Path, module: nn.Module, optimizer: AdamW, facts: Mapping[str, Any]) -> None:
    """Save weights and moments, replacing the earlier file."""
    tensors = _weights(module)
    for name, parameter in module.named_parameters():
        for moment in _MOMENTS:
            if moment in optimizer.state.get(parameter, {}):
                tensors[f"{moment}/{name}"] = optimizer.state[parameter][moment]
    _save(path, tensors, facts)


def load_state(path: Path, module: nn.Module, optimizer: AdamW | None = None) -> dict[str, Any]:
    """Restore weights, and moments if there is an optimizer; returns the facts of the file."""
    try:
        with safe_open(path, "pt") as file, torch.no_grad():
            facts = json.loads((file.metadata() or {})[_ABOUT])
            keys = set(file.keys())
            for name, tensor in _named(module).items():
                tensor.copy_(file.get_tensor(f"model/{name}"))
            for name, parameter in module.named_parameters() if optimizer is not None else ():
                held = [moment for moment in _MOMENTS if f"{moment}/{name}" in keys]
                # AdamW counts its steps on the CPU, and has the moments where the weights are
                if held:
                    assert optimizer is not None
                    optimizer.state[parameter] = {
                        moment: file.get_tensor(f"{moment}/{name}").to(
                            "cpu" if moment == "step" else parameter.device
                        )
                        for moment in held
                    }
    except (SafetensorError, KeyError, ValueError, RuntimeError, OSError):
        raise StoreError(
            f"{quoted(str(path), limit=150)} is damaged or of another model; remove its folder to "
            "start anew"
        ) from None
    assert isinstance(facts, dict)
    return facts


def _named(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name; tied weights once."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _weights(module: nn.Module) -> dict[str, Tensor]:
    # contiguous and by itself: safetensors takes no views that share memory
    return {
        f"model/{name}": one.detach().contiguous().clone() for name, one in _named(module).items()
    }


def _save(path: Path, tensors: dict[str, Tensor], facts: Mapping[str, Any]) -> None:
    with explained(path), replacing(path) as unfinished, as_disk_errors():
        save_file(tensors, unfinished, metadata={_ABOUT: json.dumps(facts, allow_nan=False)})


@contextmanager
def as_disk_errors() -> Iterator[None]:
    """Errors of safetensors while it writes, such as a full disk, as `OSError`."""
    try:
        yield
    except SafetensorError as error:
        raise OSError(str(error)) from None
