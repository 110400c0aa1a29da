"""Rows for the tests of the evaluation's numbers."""

from typing import Any

from unmask.evaluation.rows import ResultRow

HOSTILE = [
    "<script>alert(1)</script>",
    "a|b",
    "\\|",
    "`code` **bold** [x](y)",
    "\\input{x}",
    "100% $x_1^2$ & #~{}",
    "[4pt]",
    "*",
    '=cmd()|"/c calc"',
    "@SUM(1)",
    "+1+1",
    "\tTAB",
    "\rCR",
    "\u202egnp.exe",
    "two\nlines",
    "nul\0l",
    "\x1b[31mred",
    'quote"comma,',
]


def a_row(example: int = 0, **changes: object) -> ResultRow:
    """A row with everything filled in; metrics go away with an error."""
    values: dict[str, Any] = {
        "corpus": "snli",
        "mask": "random",
        "model": "bert-base-cased",
        "support": "vocabulary",
        "example_id": f"s{example:04}/random",
        "sentence_id": f"s{example:04}",
        "construction": "mlm",
        "gold_bytes": 8,
        "length": 12,
        "positions": [3, 5],
        "pairwise_nll": 2.0,
        "unary_nll": 1.5,
        "all_kl": 0.25,
        "gold_kl": 0.125,
        "incompatibility": 0.01,
    }
    if changes.get("reason") is not None:
        values.update(dict.fromkeys(["pairwise_nll", "unary_nll", "all_kl", "gold_kl"]))
    values |= changes
    values.setdefault("token_distance", abs(values["positions"][0] - values["positions"][1]) - 1)
    return ResultRow(**values)
