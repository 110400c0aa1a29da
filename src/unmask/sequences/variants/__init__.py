"""Variants of a sequence, scored by the literature's conventions and by joints.

A variant is one or more mutations of a wild type. Scores are log-odds of the variant against the
wild type, in nats. Forward passes that variants or methods have in common run once.
"""

# the columns of ProteinGym's assays
MUTANT, MUTATED_SEQUENCE = "mutant", "mutated_sequence"
