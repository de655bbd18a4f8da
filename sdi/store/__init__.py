"""Features, and where they are kept: shards on disk, written whole, found by example id."""
