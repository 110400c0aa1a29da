"""J as a value: a number of bits, and what it says in plain words."""

from dataclasses import asdict, dataclass

from unmask.results import ModelResult

# of the summary numbers, wherever they are written
UNITS = {"entropy": "nats", "mutual_information": "nats", "incompatibility": "bits"}
# where the plain words change, in bits
CLOSE, APART = 0.01, 0.05


@dataclass(frozen=True)
class Agreement(ModelResult):
    """The incompatibility of two conditionals: 0 bits when one joint has both, at most 1.

    With more than two blanks it measures how far all their conditionals contradict each other, and
    is still at most 1.

    Examples:
        >>> joint.agreement().blanks
        2
    """

    bits: float
    blanks: int = 2

    def __str__(self) -> str:
        """The bits and what they mean, as every output says it."""
        return self.said()

    def said(self, error: float | None = None) -> str:
        """The same with a standard error, if it was estimated."""
        bar = "" if error is None else f" +- {error:.3f}"
        return f"J = {self.bits:z.3f}{bar} bits: {self.words()}"

    def to_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON."""
        return {**asdict(self), "words": self.words()}

    def words(self) -> str:
        """The same in plain words."""
        they = "the two conditionals" if self.blanks == 2 else "the conditionals"
        if self.bits < CLOSE:
            return f"{they} agree closely"
        if self.bits < APART:
            return f"{they} agree roughly: small differences of probability mean little"
        return f"{they} disagree: treat these probabilities as approximate"
