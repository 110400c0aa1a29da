"""Conditionals of blanks, elicited from a model or given, and how they are kept."""
