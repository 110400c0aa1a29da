"""Results of a model as dictionaries and as data frames."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from unmask.errors import UnmaskError
from unmask.lazy import Guessable
from unmask.printable import quoted

if TYPE_CHECKING:
    import pandas as pd


class ModelResult(Guessable):
    """A result of a model: its values as a dictionary and as a data frame."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON: those of a dataclass, unless a result says it otherwise."""
        values: Any = self
        return asdict(values)

    def to_pandas(self) -> "pd.DataFrame":
        """A data frame of one row, with the keys of `to_dict` as columns."""
        return data_frame([self.to_dict()])


def to_pandas(results: Any) -> "pd.DataFrame":
    """Results as a data frame: a row per result, with the keys of its `to_dict` as columns.

    Args:
        results: Results of a model, or dictionaries; or one alone, which has its own `to_pandas`.
    Returns:
        A data frame, in the order given.
    Raises:
        ImportError: pandas is not installed.
        UnmaskError: Something else is given.
    Examples:
        >>> scores = lm.score(["Two dogs are running.", "A man sings."])
        >>> list(unmask.to_pandas(scores)["tokens"])
        [5, 4]
    """
    if isinstance(results, ModelResult):
        return results.to_pandas()
    is_list = isinstance(results, Iterable) and not isinstance(results, dict | str)
    return data_frame(map(_values, results if is_list else [results]))


def _values(result: Any) -> dict[str, Any]:
    if isinstance(result, dict):
        return result
    if not callable(getattr(result, "to_dict", None)):
        raise UnmaskError(
            f"to_pandas takes results, such as those of lm.score(texts), not {quoted(result)}"
        )
    return dict(result.to_dict())


def data_frame(rows: Iterable[dict[str, Any]]) -> "pd.DataFrame":
    """A data frame of dictionaries, or an error that says how to get pandas."""
    try:
        import pandas as pd
    except ImportError:
        raise ImportError(
            "to_pandas needs pandas: pip install 'unmask[pandas]', or use to_dict"
        ) from None
    return pd.DataFrame(list(rows))
