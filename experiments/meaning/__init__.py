"""meaning: does a step's number predict what retraining does to that step? Tasks small enough to retrain often."""

from .experiment import run_experiment
from .settings import Settings, configuration

__all__ = ["Settings", "configuration", "run_experiment"]
