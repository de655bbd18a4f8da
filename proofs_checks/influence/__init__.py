"""Scores: each sums to the next, on both backends; eta and checkpoints weigh them; what summaries say."""
