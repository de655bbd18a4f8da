"""Scores as plain functions of arrays or Features: products, and what a trajectory says in one number."""

from sdi.scores.products import by_parameter, outside, over_checkpoints, sdi, sdi_train, step_matrix, tracin
from sdi.scores.summaries import (
    cancellation,
    centre_of_mass,
    cross_mass,
    energy,
    group_share,
    horizon,
    late_mass,
    self_influence,
)

__all__ = [
    "by_parameter",
    "cancellation",
    "centre_of_mass",
    "cross_mass",
    "energy",
    "group_share",
    "horizon",
    "late_mass",
    "outside",
    "over_checkpoints",
    "sdi",
    "sdi_train",
    "self_influence",
    "step_matrix",
    "tracin",
]
