"""Work on many inputs: what models and plans are known by, shards, locks and executors."""
