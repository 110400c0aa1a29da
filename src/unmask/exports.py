"""A joint as plain values: a dictionary for JSON, or a data frame."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from unmask.joint import Joint


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
