"""What a run leaves behind: its plan and result rows, written by one process per shard."""
