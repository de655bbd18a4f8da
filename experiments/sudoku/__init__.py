"""The Sudoku experiment: loop compute, memorisation, and when influence acts."""

from .batches import make_loader, show
from .boards import Boards, generate, load_satnet, rounds
from .experiment import run_experiment
from .findings.analysis import analyse
from .pretrained_model import pretrained
from .settings import CONFIGS, Settings, configuration
from .slowest_board import pick_board, trace_board
from .training import Trainer, train

__all__ = [
    "CONFIGS",
    "Boards",
    "Settings",
    "Trainer",
    "analyse",
    "configuration",
    "generate",
    "load_satnet",
    "make_loader",
    "pick_board",
    "pretrained",
    "rounds",
    "run_experiment",
    "show",
    "trace_board",
    "train",
]
