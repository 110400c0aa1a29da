"""What joints cost, said before it is paid.

`needs` says what a construction asks of the model, `passes` how often tables are read, `flops` and
`timing` what both take here, `accelerators` what they would take elsewhere; `cost` is the value
that tells it all, and `estimate` makes it for a text.
"""
