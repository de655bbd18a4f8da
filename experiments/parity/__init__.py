"""The parity experiment: a looped transformer, its influence trajectories, and the automaton they point to."""

from .analyse import Analysis, analyse
from .experiment import run_experiment
from .pretrained import pretrained
from .settings import CONFIGS, Settings, configuration
from .train import Trainer, train

__all__ = [
    "CONFIGS",
    "Analysis",
    "Settings",
    "Trainer",
    "analyse",
    "configuration",
    "pretrained",
    "run_experiment",
    "train",
]
