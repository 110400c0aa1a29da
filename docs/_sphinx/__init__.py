"""What conf.py needs beyond settings: kernels for tutorials, folders as pages, formulas, names."""
