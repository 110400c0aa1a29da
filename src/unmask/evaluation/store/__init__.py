"""What a run leaves behind: a folder with its plan and rows, written by one process a shard."""
