"""Masked LMs measured on corpora: which examples, what was found, and what it amounts to."""
