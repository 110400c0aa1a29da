"""Samples of any number of blanks: block Gibbs over pairs, and how far its chains have mixed.

Nothing here knows a tokenizer.
"""
