"""Which places of a text depend on each other: maps of whole texts, and blanks filled together."""
