"""What joints will cost.

`forward_passes` counts rows of the model, `passes` sweeps over the tables, `flops` counts a model's
arithmetic, `accelerators` knows other machines; `cost` is the value that holds it all, and
`estimate` makes it for a text.
"""
