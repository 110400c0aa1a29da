"""torch.compile for the trunk of a model, as one piece, and only if it computes the same."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from unmask.errors import ModelError
from unmask.model.trimming import same_numbers
from unmask.printable import printable


def compile_trunk(model: Any, run: Callable[[], Tensor]) -> None:
    """Compile all but the head, in place; what `run` returns must stay the same."""
    trunk, name = model.base_model, type(model).__name__
    if trunk is model:
        raise ModelError(f"{name} has no trunk beside its head; load it without compile")
    expected = run()
    trunk.forward = _compiled(trunk)
    try:
        same = same_numbers(run(), expected)
    except Exception as error:  # compilers fail in many ways; all mean the same to the caller
        del trunk.forward
        reason = printable(str(error).strip().split("\n")[0])[:150]
        raise ModelError(
            f"{name} does not compile ({reason}); compile=True needs a C++ compiler, on a GPU "
            "triton: install it, or load without compile"
        ) from None
    if not same:
        del trunk.forward
        raise ModelError(f"{name} computes something else when compiled; load it without compile")


def _compiled(module: nn.Module) -> Callable[..., Any]:
    """A forward pass compiled once for any number of rows, and any length."""
    plain = module.forward
    fast = torch.compile(plain, dynamic=True)

    def forward(*args: Any, **options: Any) -> Any:
        given = [*args, *options.values()]
        if any(isinstance(value, Tensor) and len(value) == 1 for value in given):
            # one row would be compiled anew, for one row
            return plain(*args, **options)
        # so would tensors made outside inference mode: copies are made inside, whence all come here
        return fast(*map(_copied, args), **{name: _copied(v) for name, v in options.items()})

    return forward


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value
