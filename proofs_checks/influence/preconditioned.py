"""A score <P g_i, phi_j[t]> conserves for any P that is the same for all steps of a query.

    sum_t <P g_i, phi_j[t]> + <P g_i, outside_j> = <P g_i, g_j>

Decided in float64 for P = 1, Adam's second moments, a damped empirical Fisher (whole, of sketches, as Kronecker
products) and lengths of 1, along a small training run, at checkpoints and as met, against the same score with the
query's whole gradient in one slot, to 1e-10.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np

from sdi.backends import room
from sdi.result.result import Result
from sdi.retraining.along_training import PRECONDITIONS, along_training

from ..machinery.statement import Verdict, statement
from .through_training import small_query, small_run

Claim = Callable[..., Result]
PLACES = ("fast.training", "fast.training.along")


@cache  # one truth for all claims
def _whole_in_one_slot(precondition: str | None, m: int | None, checkpoints: int | None) -> np.ndarray:
    """The same score with the whole gradient, by a pass of its own, in the place of all steps."""
    run = small_run("clipped Adam")
    right = room("fast.training").query_gradients

    def one_slot(*arguments: Any, **keywords: Any) -> Any:
        found = right(*arguments, **keywords)
        phi = found.phi * 0
        phi[:, 0] = found.whole
        return found._replace(phi=phi)

    with (
        patch.object(room(PLACES[0]), "query_gradients", one_slot),
        patch.object(room(PLACES[1]), "query_gradients", one_slot),
    ):
        result = along_training(run, [small_query()], precondition=precondition, m=m, checkpoints=checkpoints)
    return np.asarray(result.tracin.values)


def _own_length_for_each_step(*arguments: Any, **options: Any) -> Result:
    """The cosine with every step's own length: no longer one P."""
    result = along_training(*arguments, **options)
    if options.get("precondition") == "cosine":
        result.by_checkpoint.values[:] *= 1 + 0.1 * np.arange(result.by_checkpoint.values.shape[-1])
    return result


def _outside_forgotten(*arguments: Any, **options: Any) -> Result:
    result = along_training(*arguments, **options)
    result.outside.values[:] = 0
    return result


def _steps_squared(*arguments: Any, **options: Any) -> Result:
    result = along_training(*arguments, **options)
    if options.get("precondition") == "adam":
        result.by_checkpoint.values[:] = np.sign(result.by_checkpoint.values) * result.by_checkpoint.values**2
    return result


def _patched(place: str, owner: str, name: str, change: Callable[[Any], Any]) -> Claim:
    """along_training with a part of it changed."""
    cls: Any = getattr(room(f"fast.training.{place}"), owner)

    def broken(*arguments: Any, **options: Any) -> Result:
        with patch.object(cls, name, change(getattr(cls, name))):
            return along_training(*arguments, **options)

    return broken


def _factors_of_each_step(inverse: Callable[..., Any]) -> Callable[..., Any]:
    """A Kronecker product for each vector, and so for each step: no longer one P."""

    import torch

    def changed(factors: Any, n: int, damping: float) -> Any:
        return lambda v: torch.cat([inverse(factors, n, damping * (1 + k))(v[k : k + 1]) for k in range(len(v))])

    return changed


def _sketch_of_each_step(scores: Callable[..., Any]) -> Callable[..., Any]:
    """Signs of the sketch that differ from step to step, on the query's side alone."""

    def changed(sketch: Any, G: Any, g: Any, phi: Any, damping: float) -> Any:
        turned = phi.clone()
        turned[:, 1::2, ::2] *= -1
        return scores(sketch, G, g, turned, damping)

    return changed


M = 8  # numbers of a sketch; the largest tensors have 64


def _cases(claim: Claim, thorough: bool) -> Iterator[tuple[bool, str]]:
    run = small_run("clipped Adam")
    ways: list[dict[str, Any]] = [
        *({"precondition": name} for name in PRECONDITIONS),
        {"precondition": "fisher", "m": M},
    ]
    for way, checkpoints in product(ways, (2, None)):
        options: dict[str, Any] = {**way, "checkpoints": checkpoints}
        total = claim(run, [small_query()], **options).tracin.values
        whole = _whole_in_one_slot(way["precondition"], way.get("m"), checkpoints)
        off = float(np.abs(total - whole).max() / np.abs(whole).max())
        yield off < 1e-10, f"{options}: steps miss the whole by {off:.2g}"


@statement(
    "influence.preconditioned",
    paper="not in the paper: scores between TracIn and the derivative through training",
    method="float64",
    claim=along_training,
    mutants={
        "each step has a length of its own": _own_length_for_each_step,
        "what is outside the loop is forgotten": _outside_forgotten,
        "Adam's moments enter steps otherwise than the whole": _steps_squared,
        "each step has Kronecker factors of its own": _patched(
            "kronecker", "Factors", "inverse", _factors_of_each_step
        ),
        "each step has a sketch of its own": _patched("preconditioned", "Sketched", "scores", _sketch_of_each_step),
    },
)
def preconditioned_scores_conserve(claim: Claim, thorough: bool) -> Verdict:
    """Whatever matrix multiplies gradients, if it is the same for all steps, steps sum to the whole score."""
    return Verdict.all(_cases(claim, thorough))
