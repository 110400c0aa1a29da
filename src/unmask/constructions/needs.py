"""Which parts of the tables a construction needs, and so how many rows of the model."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Needs:
    """The parts of the tables that a construction asks for.

    `whole_*` is a whole table, `some_*` a number of single contexts of it.
    """

    masked: bool = False
    whole_a: bool = False
    whole_b: bool = False
    some_a: int = 0
    some_b: int = 0

    def both(self) -> bool:
        """Whether it asks for both tables."""
        return self.whole_a and self.whole_b

    def tables(self) -> int:
        """How many whole tables it asks for."""
        return self.whole_a + self.whole_b

    def only_pairs(self) -> bool:
        """Whether what is asked for depends on the pairs that are looked at."""
        return bool(self.some_a and self.some_b) and not (self.whole_a or self.whole_b)

    def rows(self, shape: tuple[int, ...]) -> int:
        """Rows that the model runs; contexts of a table that is there anyway are free."""
        given_b = shape[1] if self.whole_a else self.some_a
        given_a = shape[0] if self.whole_b else self.some_b
        return self.masked + given_b + given_a
