"""Iterations over a pair of tables that find marginals, and say whether they found them.

`bradley_terry` minimises what Arnold & Gokhale minimise; `stationary` finds where pseudo-Gibbs
sampling settles. Both read the tables in streaming passes and are preconditioned by the forest of
every token's strongest edge.
"""
