"""The distribution that a user holds, and what is asked of it."""
