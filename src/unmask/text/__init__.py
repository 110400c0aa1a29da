"""A text and the candidates of its blanks: ids, positions, axes."""
