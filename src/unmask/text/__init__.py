"""A text, and what may stand in it: ids, positions, axes."""
