"""How long work would take on an accelerator that is not here, from its published peaks."""

from dataclasses import dataclass

from unmask.arguments import real_number
from unmask.errors import UnmaskError
from unmask.printable import quoted
from unmask.queries.costs.cost import Cost

# the part of every peak that real work is taken to reach
UTILISATION = 0.4


@dataclass(frozen=True)
class Accelerator:
    """Published peaks: FLOP per second without sparsity, bytes per second, bytes.

    `float32` is that of ordinary arithmetic: by default torch does not round products to TF32.
    """

    name: str
    float32: float
    half: float
    bandwidth: float
    memory: float
    source: str
    bfloat16: bool = True

    def peak(self, dtype: str) -> float:
        """FLOP per second in float32, bfloat16 or float16."""
        if dtype == "bfloat16" and not self.bfloat16:
            raise UnmaskError(
                f"{self.name} has no bfloat16 arithmetic; use dtype float16 or float32"
            )
        return self.float32 if dtype == "float32" else self.half


_KNOWN = (
    Accelerator("A100", 19.5e12, 312e12, 2039e9, 80e9, "NVIDIA A100 datasheet, 80 GB SXM"),
    Accelerator("H100", 67e12, 989e12, 3350e9, 80e9, "NVIDIA H100 datasheet, SXM"),
    Accelerator("L4", 30.3e12, 121e12, 300e9, 24e9, "NVIDIA L4 datasheet"),
    Accelerator("T4", 8.1e12, 65e12, 320e9, 16e9, "NVIDIA T4 datasheet", bfloat16=False),
    Accelerator(
        "V100", 15.7e12, 125e12, 900e9, 32e9, "NVIDIA V100 datasheet, 32 GB SXM2", bfloat16=False
    ),
    Accelerator(
        "RTX4090", 82.6e12, 165.2e12, 1008e9, 24e9, "NVIDIA Ada architecture whitepaper, appendix A"
    ),
)
ACCELERATORS = {one.name: one for one in _KNOWN}


def accelerator(name: str) -> Accelerator:
    """An accelerator by its name, in any case, with or without spaces."""
    plain = name.upper().replace(" ", "").replace("-", "").replace("_", "")
    if plain not in ACCELERATORS:
        raise UnmaskError(
            f"no accelerator {quoted(name)} is known; there are {', '.join(ACCELERATORS)}"
        )
    return ACCELERATORS[plain]


def seconds_on(
    where: Accelerator, cost: Cost, *, dtype: str, utilisation: float = UTILISATION
) -> float | None:
    """The time of one text: products at the peak of their type, table passes at the bandwidth.

    The model runs in `dtype`, the output layer in float32. None where the FLOP are not known.
    """
    part = real_number(utilisation)
    if part is None or not 0 < part <= 1:
        raise UnmaskError(
            f"utilisation is a part of the peak, above 0 and up to 1, not {quoted(utilisation)}"
        )
    peak = where.peak(dtype)
    if cost.flop is None:
        return None
    products = cost.flop / peak + cost.table_flop / where.float32
    return (products + cost.table_traffic / where.bandwidth) / part
