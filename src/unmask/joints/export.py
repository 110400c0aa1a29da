"""Fills of a joint as plain values: a data frame, or a few lines of text."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unmask.printable import columns, printable

if TYPE_CHECKING:
    import pandas as pd

    from unmask.joints.fill import Fill

# of the summary numbers, wherever they are written
UNITS = {"entropy": "nats", "mutual_information": "nats", "incompatibility": "bits"}


def as_data_frame(fills: "Sequence[Fill]") -> "pd.DataFrame":
    """The fills, a row each."""
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
        for fill in fills
    ]
    return pd.DataFrame(rows)


def as_text(method: str, shape: Sequence[int], fills: "Sequence[Fill] | None") -> str:
    """What a joint is, with fills where they were ranked."""
    size, count = " x ".join(f"{length:,}" for length in shape), len(shape)
    head = f"Joint over {count} blank{'s' * (count != 1)} ({size} tokens) by {method}"
    if fills is None:
        return f"<{head}; .top(5) ranks its fills>"
    table = [[f"{f.probability:.4f}", *map(printable, f.tokens)] for f in fills]
    return f"<{head}>\n" + columns(table)
