"""Where examples are measured: in this process, or on a Ray cluster."""
