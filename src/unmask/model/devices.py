"""Differences between devices: the one module that names any beside the CPU.

A GPU computes in float64, so tables stay on it, and torch compiles for it. Any other accelerator,
such as Apple's, only runs the model.
"""

from typing import Literal

import torch

# the device type of NVIDIA's and AMD's GPUs
GPU = "cuda"
_GPUS = {GPU}


def kind_of(device: torch.device) -> Literal["cpu", "gpu", "other"]:
    """The CPU, a GPU, or an accelerator without float64."""
    if device.type == "cpu":
        return "cpu"
    return "gpu" if device.type in _GPUS else "other"


# names that torch knows; its own list has two dozen
USUAL_NAMES = "a GPU is 'cuda', or 'mps' on a Mac"


def is_gpu(device: torch.device) -> bool:
    """True for a GPU."""
    return kind_of(device) == "gpu"


def for_float64(device: torch.device) -> torch.device:
    """The device that computes with a model's results: the same if it has float64, or the CPU."""
    return device if kind_of(device) != "other" else torch.device("cpu")


def default_device() -> torch.device:
    """A GPU if there is one."""
    if torch.accelerator.is_available():
        accelerator = torch.accelerator.current_accelerator()
        if accelerator is not None and is_gpu(accelerator):
            return accelerator
    return torch.device("cpu")


def available_devices() -> list[str]:
    """The names of the devices of this machine."""
    names = ["cpu", *(f"{GPU}:{number}" for number in range(torch.cuda.device_count()))]
    return [*names, "mps"] if torch.backends.mps.is_available() else names


def gpu_of_process(number: int) -> str | None:
    """The GPU of a process among several on this machine, in turn; None if there is none."""
    count = torch.cuda.device_count()
    return f"{GPU}:{number % count}" if count else None


def device_name(device: torch.device) -> str:
    """The product name of a GPU, the type of another device."""
    if not is_gpu(device):
        return device.type
    name: str = torch.get_device_module(device).get_device_name(device)
    return name


def release_cached_memory() -> None:
    """Return the memory of the accelerator that torch keeps for later tensors."""
    if torch.accelerator.is_available():
        torch.get_device_module().empty_cache()
