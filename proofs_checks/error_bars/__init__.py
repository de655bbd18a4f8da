"""Variances over parameters and checkpoints, and the standard error that a result gives."""
