"""What conf.py needs beyond settings: folders as pages, formulas, names."""
