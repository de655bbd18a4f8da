"""The nanochat experiment: horizons, truncated backpropagation, and whether the model counts its loop steps."""

from .chat import Chat, prepare
from .experiment import run_experiment
from .settings import CONFIGS, Settings, configuration
from .training import Trainer, train

__all__ = ["CONFIGS", "Chat", "Settings", "Trainer", "configuration", "prepare", "run_experiment", "train"]
