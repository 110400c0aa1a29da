"""Extensions of conf.py: cells of numbers, folders as pages, formulas, names."""
