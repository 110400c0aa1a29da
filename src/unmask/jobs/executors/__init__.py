"""Where jobs are done: in this process, or on a Ray cluster."""
