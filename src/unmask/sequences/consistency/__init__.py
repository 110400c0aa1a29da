"""How far a model contradicts itself: what is measured, its statistics, and a card of them."""
