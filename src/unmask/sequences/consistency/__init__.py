"""Measurements of how far a model contradicts itself, their statistics, and a card of them."""
