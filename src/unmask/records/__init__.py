"""Rows in files: one reader of every format, which gives rows or reasons, and one writer."""
