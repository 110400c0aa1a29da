"""Ids in, log-probabilities out: models, how they are loaded, and how rows are read."""
