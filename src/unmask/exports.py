"""A joint as plain values: a dictionary for JSON, a data frame, or a few lines of text."""

import math
from typing import TYPE_CHECKING

from unmask.printable import columns, printable

if TYPE_CHECKING:
    import pandas as pd

    from unmask.joint import Joint

# of the summary numbers, wherever they are written
UNITS = {"entropy": "nats", "mutual_information": "nats", "incompatibility": "bits"}
# fills are ranked for a few lines of text only where that takes well under a second
_CELLS_RANKED_IN_TEXT = 2**25


def as_dict(joint: "Joint", n: int) -> dict[str, object]:
    """The likeliest fills and the summary numbers that are free."""
    free = joint.sums_are_free()
    return {
        "method": joint.method,
        "shape": list(joint.shape),
        "fills": [fill.to_dict() for fill in joint.top(n)],
        "entropy": joint.entropy() if free else None,
        "mutual_information": joint.mutual_information() if free else None,
        "incompatibility": joint.incompatibility(),
        "units": UNITS,
        "diagnostics": joint.diagnostics,
    }


def as_data_frame(joint: "Joint", n: int) -> "pd.DataFrame":
    """The likeliest fills, a row each."""
    try:
        import pandas as pd
    except ImportError:
        said = "to_pandas needs pandas: pip install 'unmask[pandas]', or use to_dict"
        raise ImportError(said) from None
    rows = [
        {
            **{f"token_{axis}": token for axis, token in enumerate(fill.tokens)},
            **{f"id_{axis}": token_id for axis, token_id in enumerate(fill.ids)},
            "probability": fill.probability,
            "log_prob": fill.log_prob,
        }
        for fill in joint.top(n)
    ]
    return pd.DataFrame(rows)


def as_text(joint: "Joint") -> str:
    """What it is, with the likeliest fills where ranking them is cheap."""
    size, count = " x ".join(f"{length:,}" for length in joint.shape), len(joint.shape)
    head = f"Joint over {count} blank{'s' * (count != 1)} ({size} tokens) by {joint.method}"
    if math.prod(joint.shape) > _CELLS_RANKED_IN_TEXT or not joint.sums_are_free():
        return f"<{head}; .top(5) ranks its fills>"
    fills = joint.top(min(5, math.prod(joint.shape)))
    table = [[f"{f.probability:.4f}", *map(printable, f.tokens)] for f in fills]
    return f"<{head}>\n" + columns(table)
