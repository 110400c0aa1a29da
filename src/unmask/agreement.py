"""J as a value: a number of bits, whether it is certain, and what it says in plain words."""

from dataclasses import dataclass

# where the plain words change, in bits
CLOSE, APART = 0.01, 0.05


@dataclass(frozen=True)
class Agreement:
    """How far two conditionals contradict each other: 0 bits when one joint has both, at most 1.

    `converged` is that of the solver behind it: without it the bits are rough.
    """

    bits: float
    converged: bool = True

    def words(self) -> str:
        """The same in plain words."""
        if self.bits < CLOSE:
            return "the two conditionals agree closely"
        if self.bits < APART:
            return (
                "the two conditionals agree roughly: small differences of probability mean little"
            )
        return "the two conditionals disagree: treat these probabilities as approximate"
