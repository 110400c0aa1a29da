"""More than two blanks: tables over candidate sets, their constructions, and beams beyond them.

Every table has an axis a blank. One that does not depend on a blank has size 1 there, so that
tables of different contexts broadcast against each other.
"""
