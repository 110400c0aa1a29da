"""Iterations that find laws of contexts, and say whether they found them: start at `fits`.

`descent` minimises what Arnold & Gokhale minimise, `balance` finds where pseudo-Gibbs sampling
settles. Both see tables as a graph, of two blanks (`pair_graph`) or of more (`context_graph`), and
are preconditioned by the forest of every node's strongest edge.
"""
