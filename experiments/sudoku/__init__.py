"""The Sudoku experiment: loop compute, memorisation, and when influence acts."""

from .analysis import analyse
from .experiment import run_experiment
from .generator import Boards, generate
from .rounds import rounds
from .satnet import satnet
from .settings import CONFIGS, Settings, configuration
from .training import Trainer, train

__all__ = [
    "CONFIGS",
    "Boards",
    "Settings",
    "Trainer",
    "analyse",
    "configuration",
    "generate",
    "rounds",
    "run_experiment",
    "satnet",
    "train",
]
