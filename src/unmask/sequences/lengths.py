"""How probable a number of tokens is, before anything is known of the text.

`log-pool` gives log p(text | its length); texts of different lengths can be compared only when
their lengths have probabilities too.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unmask.errors import CorpusError, UnmaskError
from unmask.printable import quoted

if TYPE_CHECKING:
    from unmask.language_model import LanguageModel

_KINDS = "uniform, poisson:MEAN, geometric:P or corpus:FILE"


@dataclass(frozen=True)
class LengthPrior:
    """Log-probabilities of lengths from 1, in tokens without special ones.

    `proper` is False where they add up to no finite number: then only differences mean something.
    """

    spec: str
    of_length: Callable[[int], float]
    proper: bool = True
    note: str = ""

    def log_prob(self, tokens: int) -> float:
        """The log-probability of a length; minus infinity where it cannot occur."""
        return self.of_length(tokens) if tokens >= 1 else -math.inf


def read_length_prior(spec: object, lm: "LanguageModel | None" = None) -> LengthPrior:
    """A length prior by its description.

    - `uniform`: every length alike; improper.
    - `poisson:MEAN`: Poisson with that parameter, given that there is at least one token.
    - `geometric:P`: another token follows with probability P, so that the mean is 1 / (1 - P).
    - `corpus:FILE`: the lengths of a file's lines as the tokenizer of `lm` counts them, one added
      to the count of every length up to the longest that the model takes.
    """
    if not isinstance(spec, str):
        raise UnmaskError(f"a length prior is {_KINDS}, not {quoted(spec)}")
    kind, colon, value = spec.partition(":")
    if spec == "uniform":
        return LengthPrior(spec, lambda tokens: 0.0, proper=False, note="every length alike")
    if kind == "poisson" and colon:
        return poisson(_parameter(spec, value, "a mean above 0", 0.0, math.inf))
    if kind == "geometric" and colon:
        return geometric(_parameter(spec, value, "a probability between 0 and 1", 0.0, 1.0))
    if kind == "corpus" and value:
        if lm is None:
            raise UnmaskError(f"{quoted(spec)} counts tokens; give the model whose tokenizer does")
        return _of_corpus(spec, Path(value), lm)
    raise UnmaskError(f"a length prior is {_KINDS}, not {quoted(spec)}")


def poisson(mean: float) -> LengthPrior:
    """Poisson lengths, given that they are at least one."""
    log_some = math.log(-math.expm1(-mean))

    def log_prob(tokens: int) -> float:
        return tokens * math.log(mean) - mean - math.lgamma(tokens + 1) - log_some

    return LengthPrior(f"poisson:{mean:g}", log_prob, note="at least one token")


def geometric(going_on: float) -> LengthPrior:
    """After every token another one follows with the same probability."""

    def log_prob(tokens: int) -> float:
        return (tokens - 1) * math.log(going_on) + math.log1p(-going_on)

    return LengthPrior(f"geometric:{going_on:g}", log_prob)


def empirical(spec: str, lengths: Iterable[int], longest: int) -> LengthPrior:
    """Counted lengths from 1 to the longest, each count one more than it was."""
    counts = Counter(lengths)
    kept = {tokens: count for tokens, count in counts.items() if 1 <= tokens <= longest}
    texts, beyond = sum(kept.values()), counts.total() - sum(kept.values())
    log_total = math.log(texts + longest)

    def log_prob(tokens: int) -> float:
        return math.log(kept.get(tokens, 0) + 1) - log_total if tokens <= longest else -math.inf

    note = f"{texts} texts, one added to the count of every length from 1 to {longest}"
    left_out = f"; {beyond} longer texts left out" if beyond else ""
    return LengthPrior(spec, log_prob, note=note + left_out)


def _parameter(spec: str, value: str, wanted: str, low: float, high: float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not low < number < high:
        raise UnmaskError(f"the length prior {quoted(spec)} needs {wanted}, not {quoted(value)}")
    return number


def _of_corpus(spec: str, path: Path, lm: "LanguageModel") -> LengthPrior:
    # tokenizing is imported late: this module alone needs no torch
    from unmask.sequences.texts import lengths_in_tokens, special_tokens_around

    numbered = _lines(path)
    shown = quoted(str(path))
    lengths = lengths_in_tokens(
        lm,
        [line for _, line in numbered],
        lambda rank: f"line {numbered[rank][0]} of {shown}",
    )
    longest = max(lengths)
    if lm.max_length is not None:
        longest = lm.max_length - special_tokens_around(lm)
    return empirical(spec, lengths, longest)


def _lines(path: Path) -> list[tuple[int, str]]:
    """Lines that are not empty, and their numbers from 1."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise CorpusError(f"cannot read lengths from {quoted(str(path))}: {why}") from None
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise CorpusError(f"{quoted(str(path))} holds no text; write one a line")
    return lines
