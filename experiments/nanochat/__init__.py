"""The nanochat experiment: horizons, truncated backpropagation, and whether the model counts its loop steps."""

from .settings import CONFIGS, Settings, configuration

__all__ = ["CONFIGS", "Settings", "configuration"]
