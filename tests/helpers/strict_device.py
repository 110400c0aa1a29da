"""A second device on a machine without a GPU, as strict as CUDA.

Tensors on "strict" keep their numbers in the memory of the CPU and are computed there, but meet
tensors of the CPU only where those on CUDA would: in copies, as indices, and as single numbers.
They do not become NumPy arrays, take no generator of the CPU, and draw random numbers of their
own. Dtypes that CUDA has no matrix products for are refused as well.

Not imitated: asynchronous execution, compiled kernels, CUDA's own rounding, its limits of memory.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_leaves, tree_map

NAME = "strict"
_aten = torch.ops.aten
_INDEXING = {
    _aten.index.Tensor,
    _aten._unsafe_index.Tensor,
    _aten.index_put.default,
    _aten.index_put_.default,
    _aten._index_put_impl_.default,
}
# a number of the CPU may stand in these, and in what is computed cell by cell
_FILLING = {
    _aten.fill.Tensor,
    _aten.fill_.Tensor,
    _aten.masked_fill.Tensor,
    _aten.masked_fill_.Tensor,
    _aten.index_fill.int_Tensor,
    _aten.index_fill_.int_Tensor,
}
_PRODUCTS = {_aten.mm, _aten.bmm, _aten.mv, _aten.dot, _aten.addmm, _aten.addmv, _aten.baddbmm}
_MIXED = "Expected all tensors to be on the same device, but found at least two devices"


class StrictTensor(torch.Tensor):
    """A tensor on the strict device; `held` are its numbers."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> "StrictTensor":
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            layout=held.layout,
            device=torch.device(NAME, 0),
            requires_grad=False,
        )
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return run(function, *args, **kwargs or {})

    # what torch answers from memory, where it knows none of such a tensor

    def __repr__(self, **_: Any) -> str:
        return f"StrictTensor({self.held!r})"

    def __format__(self, spec: str) -> str:
        return format(self.held, spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> "StrictTensor":
        if id(self) not in memo:
            with torch.no_grad():
                memo[id(self)] = self.clone().requires_grad_(self.requires_grad)
            memo[id(self)].__dict__ |= {k: v for k, v in self.__dict__.items() if k != "held"}
        return memo[id(self)]

    def tolist(self) -> Any:
        return self.held.tolist()

    def data_ptr(self) -> int:
        return self.held.data_ptr()

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.held.untyped_storage()

    def numpy(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError(
            f"can't convert {NAME}:0 device type tensor to numpy. Use Tensor.cpu() to copy the "
            "tensor to host memory first."
        )

    __array__ = numpy

    def pin_memory(self, *_: Any) -> torch.Tensor:
        raise RuntimeError(f"cannot pin a tensor of {NAME}: only dense CPU tensors can be pinned")


class StrictModule:
    """`torch.strict`, which torch asks about the device as it asks `torch.cuda`."""

    def __init__(self) -> None:
        self._generator = torch.Generator()
        self.emptied = 0

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def get_device_name(self, device: Any = None) -> str:
        return "Strict Stand-in"

    def empty_cache(self) -> None:
        self.emptied += 1

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        self._generator.manual_seed(seed)

    def get_rng_state(self, device: Any = None) -> torch.Tensor:
        return self._generator.get_state()

    def set_rng_state(self, state: torch.Tensor, device: Any = None) -> None:
        self._generator.set_state(state)

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """The global generator of the CPU stands in for the device's own."""
        kept = torch.get_rng_state()
        torch.set_rng_state(self._generator.get_state())
        try:
            yield
        finally:
            self._generator.set_state(torch.get_rng_state())
            torch.set_rng_state(kept)


MODULE = StrictModule()
_installed: list[torch.library.Library] = []


def install() -> None:
    """Tell torch of the device, once per process; it cannot be told otherwise afterwards."""
    if _installed:
        return
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    _setup_privateuseone_for_python_backend(NAME, backend_module=MODULE)
    library = torch.library.Library("aten", "IMPL")
    # what torch calls without a tensor of this class, or where such classes are switched off
    for operation in (
        _aten.empty.memory_format,
        _aten.empty_strided.default,
        _aten._copy_from.default,
        _aten._local_scalar_dense.default,
        # torch would make these empty, and then as large as they are
        _aten.arange.default,
        _aten.arange.start,
        _aten.arange.start_step,
        _aten.eye.default,
        _aten.linspace.default,
    ):
        library.impl(operation, partial(run, operation), "PrivateUse1")
    every = torch.library.Library("_", "IMPL")
    every.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    _installed.extend([library, every])


def run(function: Any, *args: Any, **kwargs: Any) -> Any:
    """One operation: refused as CUDA would, else done on the CPU."""
    if _is_composite(function):
        # in inference mode torch leaves it to the tensor class what an operation consists of
        return function.decompose(*args, **kwargs)
    tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
    own = [tensor for tensor in tensors if isinstance(tensor, StrictTensor)]
    device = kwargs.get("device")
    is_here = bool(own) if device is None else torch.device(device).type == NAME
    if device is not None:
        if is_here and torch.device(device).index:
            raise RuntimeError(f"invalid device ordinal: there is one device {NAME}")
        kwargs = {**kwargs, "device": torch.device("cpu")}
    if function in (_aten.copy_.default, _aten._copy_from.default):
        return _copied(function, *args[:2])
    if function is not _aten._to_copy.default:
        if len(own) < len(tensors):
            _refuse_mixtures(function, args, kwargs, own)
        _refuse_arguments(function, is_here, tree_leaves((args, kwargs)), tensors)
    with MODULE.drawing() if is_here and _is_random(function) else nullcontext():
        result = function(*tree_map(_held, args), **tree_map(_held, kwargs))
    return tree_map(_kept(own), result) if is_here else result


def _held(value: Any) -> Any:
    return value.held if isinstance(value, StrictTensor) else value


def _kept(own: list[StrictTensor]) -> Callable[[Any], Any]:
    """Results as tensors of the device; what was changed in place is the tensor it was."""
    before = {id(tensor.held): tensor for tensor in own}

    def keep(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        same = before.get(id(value))
        if same is None:
            # a view of an ordinary tensor is an ordinary one, also in inference mode
            with torch.inference_mode(value.is_inference()):
                return StrictTensor(value)
        if same.shape != value.shape:
            _reshape(same, value)
        return same

    return keep


def _reshape(tensor: StrictTensor, held: torch.Tensor) -> None:
    """What is known of a tensor without its numbers follows them, as far as torch allows it."""
    with no_dispatch():
        before = torch._C._meta_in_tls_dispatch_include()
        torch._C._set_meta_in_tls_dispatch_include(True)
        try:
            tensor.as_strided_(held.size(), held.stride(), held.storage_offset())
        finally:
            torch._C._set_meta_in_tls_dispatch_include(before)


def _copied(function: Any, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Copies cross devices, and broadcast."""
    target, source = (one, other) if function is _aten.copy_.default else (other, one)
    _held(target).copy_(_held(source))
    return target


def _refuse_mixtures(function: Any, args: Any, kwargs: Any, own: list[StrictTensor]) -> None:
    """Refuse tensors of both devices, but for indices and numbers of the CPU."""

    def of_cpu(values: Any) -> list[torch.Tensor]:
        tensors = [value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]
        return [tensor for tensor in tensors if not isinstance(tensor, StrictTensor)]

    strangers = of_cpu((args, kwargs)) if own else []
    if not strangers:
        return
    if function in _INDEXING and isinstance(args[0], StrictTensor):
        # indices may be of the CPU, values are where they are written
        strangers = of_cpu((args[2:], kwargs))
    at_most = len(strangers) if function in (_aten.where.self, *_INDEXING, *_FILLING) else 1
    takes = torch.Tag.pointwise in function.tags or function in (*_INDEXING, *_FILLING)
    written = [value for name, value in _named(function, args, kwargs) if name in _writes(function)]
    if (
        not takes
        or len(strangers) > at_most
        or any(one.dim() for one in strangers)
        or of_cpu(written)
    ):
        raise RuntimeError(f"{_MIXED}, {NAME}:0 and cpu! ({function})")


def _refuse_arguments(
    function: Any, is_here: bool, values: list[Any], tensors: list[torch.Tensor]
) -> None:
    """Refuse generators of the CPU, and products that CUDA has no kernel for."""
    if is_here and any(isinstance(value, torch.Generator) for value in values):
        raise RuntimeError(f"Expected a '{NAME}' device type for generator but found 'cpu'")
    integers = any(not (one.is_floating_point() or one.is_complex()) for one in tensors)
    if is_here and function.overloadpacket in _PRODUCTS and integers:
        raise NotImplementedError(f'"{function}" not implemented for integers on {NAME}')


def _named(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    names = [argument.name for argument in function._schema.arguments]
    return [*zip(names, args, strict=False), *kwargs.items()]


@cache
def _is_composite(function: Any) -> bool:
    return bool(function._can_decompose())


@cache
def _is_random(function: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in function.tags


def _writes(function: Any) -> set[str]:
    arguments = function._schema.arguments
    return {a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write}
