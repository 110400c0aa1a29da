"""The distribution that a user holds, and what it computes."""
