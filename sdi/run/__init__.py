"""Whole runs: from a model, checkpoints and data to a result, in one call or as a config says."""
