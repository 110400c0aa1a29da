"""What joints will cost.

`passes` counts rows of the model and sweeps over the tables, `flops` counts a model's arithmetic,
`accelerators` knows other machines; `cost` is the value that holds it all, and `estimate` makes it
for a text.
"""
