"""Training runs in PyTorch: replayed bit for bit, with other weights, and pulled back to each example's weight."""

from .adjoint import Pulled, pull_back
from .query_steps import StepGradients, Swapped, query_gradients, swap_effects
from .replay import Replay, Stepper
from .workers import retrain_all

__all__ = [
    "Pulled",
    "Replay",
    "StepGradients",
    "Stepper",
    "Swapped",
    "pull_back",
    "query_gradients",
    "retrain_all",
    "swap_effects",
]
