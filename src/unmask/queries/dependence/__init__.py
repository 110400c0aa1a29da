"""Maps of how places of a text depend on each other, and blanks filled together."""
