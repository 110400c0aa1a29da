"""Differences between devices: the one module that names any beside the CPU.

A GPU computes in float64, so tables stay on it. Any other accelerator, such as Apple's, only runs
the model.
"""

import torch

from unmask.errors import ModelError
from unmask.printable import printable, quoted

# the device type of NVIDIA's and AMD's GPUs
GPU = "cuda"
_GPUS = {GPU}


def is_gpu(device: torch.device) -> bool:
    """True for a GPU."""
    return device.type in _GPUS


def for_float64(device: torch.device) -> torch.device:
    """The device that computes with a model's results: the same if it has float64, or the CPU."""
    return device if device.type == "cpu" or is_gpu(device) else torch.device("cpu")


def device_of(name: str | torch.device | None) -> torch.device:
    """The device of a name; by default a GPU if there is one."""
    if name is None:
        gpu = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return gpu if gpu is not None and is_gpu(gpu) else torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        why = printable(str(error).partition("\n")[0])
        if "Expected one of" in why:
            # torch lists two dozen backends where it does not know the name
            why = "a GPU is 'cuda', or 'mps' on a Mac"
        here = ["cpu", *(f"{GPU}:{number}" for number in range(torch.cuda.device_count()))]
        here += ["mps"] if torch.backends.mps.is_available() else []
        raise ModelError(
            f"no device {quoted(str(name))} here ({why}); use {' or '.join(map(quoted, here))}"
        ) from None
    return device


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
