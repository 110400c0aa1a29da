"""What conf.py needs beyond settings: kernels for the tutorials, folders as pages, short names."""
