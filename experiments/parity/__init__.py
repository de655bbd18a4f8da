"""The parity task and experiment: a looped transformer learns whether a bit string holds an odd number of ones.

`training` and `batches` are the task, which the demo and `examples/parity` use as well; the rest is the experiment:
influence trajectories, and the automaton they point to.
"""

from .analysis import Analysis, analyse
from .batches import loss, make_batch, make_loader
from .experiment import run_experiment
from .forward import accuracy
from .pretrained_model import pretrained
from .settings import CONFIGS, Settings, configuration
from .strings import held_out, probe, training_sample, training_strings
from .training import Trainer, train

__all__ = [
    "CONFIGS",
    "Analysis",
    "Settings",
    "Trainer",
    "accuracy",
    "analyse",
    "configuration",
    "held_out",
    "loss",
    "make_batch",
    "make_loader",
    "pretrained",
    "probe",
    "run_experiment",
    "train",
    "training_sample",
    "training_strings",
]
