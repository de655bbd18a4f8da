"""What a run is given: batches, checkpoints with their learning rates, the user's script, the TOML config."""
