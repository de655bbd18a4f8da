"""What experiments share: resumable training, random loop counts, checkpoints with rates, run folders, reports.

An experiment adds its settings, a task, a model, a `Trainer` with its step, and an analysis.
"""

from .claims import Claim, claims_table
from .figures import new_figure, save_figure
from .loop_counts import draw_loops
from .report import share, table
from .run_folder import check_seeds, checkpoints_in, kept, made_of, make_folder, telling, write_json, write_untrained
from .settings import ExperimentSettings, find_configuration
from .statistics import wilson
from .training import Progress, Trainer, TrainerSettings, rate_at, train, write_checkpoint

__all__ = [
    "Claim",
    "ExperimentSettings",
    "Progress",
    "Trainer",
    "TrainerSettings",
    "check_seeds",
    "checkpoints_in",
    "claims_table",
    "draw_loops",
    "find_configuration",
    "kept",
    "made_of",
    "make_folder",
    "new_figure",
    "rate_at",
    "save_figure",
    "share",
    "table",
    "telling",
    "train",
    "wilson",
    "write_checkpoint",
    "write_json",
    "write_untrained",
]
