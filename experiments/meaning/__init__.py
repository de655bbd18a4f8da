"""meaning: does a step's number predict what retraining does to that step? Tasks small enough to retrain often."""

from .experiment import run_experiment
from .settings import Settings, Study, configuration

__all__ = ["Settings", "Study", "configuration", "run_experiment"]
