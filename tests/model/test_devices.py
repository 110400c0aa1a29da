"""The strict stand-in refuses what CUDA refuses, and one module of the package names a GPU."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import strict_device
import torch
from toy_lm import ToyMaskedLM, toy_joint

import unmask
from unmask.model import devices
from unmask.model.row_reader import RowReader

PACKAGE = Path(unmask.__file__).parent
CPU = torch.arange(6.0).view(2, 3)


@pytest.fixture(autouse=True)
def second_device(monkeypatch: pytest.MonkeyPatch) -> None:
    strict_device.install()
    monkeypatch.setattr(devices, "_GPUS", {devices.GPU, strict_device.NAME})


def there() -> torch.Tensor:
    return CPU.to("strict")


def written(target: torch.Tensor, at: object, value: torch.Tensor) -> torch.Tensor:
    target[at] = value
    return target


REFUSED: dict[str, Callable[[], object]] = {
    "addition": lambda: CPU + there(),
    "a number of the device on the CPU": lambda: CPU + there()[0, 0],
    "a number of the CPU that is changed": lambda: torch.tensor(1.0).add_(there()[0, 0]),
    "concatenation": lambda: torch.cat([CPU, there()]),
    "comparison": lambda: torch.equal(CPU, there()),
    "a product": lambda: there() @ CPU.T,
    "gathering": lambda: there().gather(1, torch.zeros(2, 1, dtype=torch.long)),
    "indices of the device on the CPU": lambda: CPU[torch.tensor([0]).to("strict")],
    "values of the CPU at indices": lambda: written(there(), torch.tensor([0]), CPU[:1]),
    "a generator of the CPU": lambda: torch.rand(3, device="strict", generator=torch.Generator()),
    "an array": lambda: np.asarray(there()),
    "an array by name": lambda: there().numpy(),
    "pinning": lambda: there().pin_memory(),
    "products of integers": lambda: there().long() @ there().long().T,
    "another device": lambda: torch.empty(1, device="strict:1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_stand_in_refuses_what_cuda_refuses(name: str) -> None:
    with pytest.raises((RuntimeError, TypeError, NotImplementedError), match="strict"):
        REFUSED[name]()


def test_what_torch_keeps_of_the_device_is_given_back_when_memory_runs_out() -> None:
    def use(batch: slice, _: torch.Tensor) -> None:
        if batch.stop - batch.start > 2:
            raise torch.OutOfMemoryError("out of memory")

    before = strict_device.MODULE.emptied
    reader = RowReader(ToyMaskedLM(toy_joint(3, 2)), unmask.Settings(batch_size=8))
    reader.each_batch(torch.full((8, 2), 3), [0], use)
    assert reader.batch_size == 2
    assert strict_device.MODULE.emptied == before + 2


def test_accelerators_without_float64_only_run_the_model() -> None:
    apple = torch.device("mps")
    assert (devices.is_gpu(apple), devices.device_name(apple)) == (False, "mps")
    assert devices.for_float64(apple) == torch.device("cpu")
    assert devices.device_of(None).type == strict_device.NAME


def test_one_module_names_a_gpu() -> None:
    naming = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if re.search(r"cuda\b|\bmps\b", path.read_text(encoding="utf-8"))
    ]
    # the help of --device lists examples
    assert sorted(naming) == ["cli/options.py", "model/devices.py"]
