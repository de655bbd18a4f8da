"""Parameters used by name in the forward that holds the loop: each use counts for the step in which it is made.

The oracle runs each example alone, with plain autograd, on a model that is given another copy of every parameter for
each step and for what is outside.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from fast_cases import assert_near, example, leaving_as_it_came, row_norms
from looped_models import make_xy, squares
from named_models import CASES, TAU, D, Hidden, Injected, InjectedRow, Mixing, Named, RowFirst, Signs, Unused

from sdi import Features, Loop
from sdi.errors import AuditError, CoverageError
from sdi.fast import Featurizer, coverage, featurize


def truth_of(model: Named, batch: Any, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """phi (n, tau, D) and outside (n, D) of these parameters."""
    rows = []
    for i in range(len(batch["x"])):
        model.copies = [
            {k: p.detach().clone().requires_grad_() for k, p in model.named_parameters()} for _ in range(TAU + 1)
        ]
        try:
            value = squares(model, example(batch, i)).sum()
            wanted = [copy[name] for copy in model.copies for name in names]
        finally:
            model.copies = None
        found = torch.autograd.grad(value, wanted, allow_unused=True)
        flat = [torch.zeros_like(w) if g is None else g for w, g in zip(wanted, found, strict=True)]
        rows.append(torch.cat([g.flatten() for g in flat]).view(TAU + 1, -1))
    phi = torch.stack(rows).numpy()
    return phi[:, :TAU], phi[:, TAU]


def assert_is_truth(features: Features, model: Named, batch: Any) -> None:
    phi, outside = truth_of(model, batch, [b.name for b in features.blocks])
    size = row_norms(phi) + row_norms(outside)
    assert_near(features.values, phi, size, "phi")
    assert_near(np.zeros_like(outside) if features.outside is None else features.outside, outside, size, "outside")


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["hooks", "recompute"])
@pytest.mark.parametrize("name", CASES)
def test_a_use_by_name_counts_for_the_step_it_is_made_in(name: str, memory: str) -> None:
    make, names = CASES[name]
    model, loop = make(), Loop(body=["core", *names], step="core", end="end")
    for n in (3, 1, D):  # as many examples as features: sizes decide nothing
        batch = make_xy(n)
        with leaving_as_it_came(model):
            features = featurize(model, squares, batch, loop=loop, memory=memory)
        assert_is_truth(features, model, batch)
    rows = {row.parameter: row for row in coverage(model, squares, make_xy(), loop=loop)}
    assert all(rows[p].route == "by name" for p in names)


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
def test_later_batches_are_right_without_an_audit(memory: str) -> None:
    model = Unused()
    run = Featurizer(model, squares, loop=Loop(["core", "gate"], "core", "end"), memory=memory, audit="off")
    for depth, n in ((3, 3), (1, 2), (3, 4)):
        batch = {**make_xy(n), "depth": torch.full((n,), depth)}
        found = run(batch)
        phi, _ = truth_of(model, batch, [b.name for b in found.blocks])
        assert_near(found.values, phi[:, :depth], row_norms(phi), "phi")


def test_a_use_before_the_call_that_begins_its_step_is_refused() -> None:
    with pytest.raises(CoverageError, match=r"'gate' is used by name 6 times in 3 steps, but always before the call"):
        featurize(Injected(), squares, make_xy(), loop=Loop(["core", "gate"], "core"))


def test_a_row_is_used_where_an_operation_takes_it() -> None:
    loop = Loop(["core", "gates"], "core")
    with pytest.raises(CoverageError, match=r"'gates' is used by name 3 times in 3 steps, but always before the call"):
        featurize(InjectedRow(), squares, make_xy(), loop=loop)
    covered = {row.parameter: row for row in coverage(RowFirst(), squares, make_xy(), loop=loop)}
    assert (covered["gates"].calls, covered["gates"].outside) == (3, 0)


def test_what_cannot_be_right_is_refused() -> None:
    loop = Loop(["core", "gate"], "core", "end")
    for memory in ("hooks", "recompute"):
        with pytest.raises(AuditError, match="mixes examples"):
            featurize(Mixing(), squares, make_xy(), loop=loop, memory=memory)
        with pytest.raises(AuditError, match="without the others and in its batch differ"):
            featurize(Mixing(), squares, make_xy(), loop=Loop("gate", "core"), memory=memory)
    with pytest.raises(CoverageError, match=r"^the gradients of body parameter 'gate', .* do not add up to autograd's"):
        featurize(Signs(), squares, make_xy(), loop=loop, audit="off")
    with pytest.raises(CoverageError, match=r"'gate' is used within a module .* use memory='hooks'"):
        featurize(Hidden(), squares, make_xy(), loop=loop, memory="recompute")
    model = Hidden()
    assert_totals(featurize(model, squares, make_xy(), loop=loop, memory="hooks"), model, make_xy())


def assert_totals(features: Features, model: Named, batch: Any) -> None:
    for block in features.blocks:
        for i, value in enumerate(squares(model, batch)):
            (g,) = torch.autograd.grad(value, model.get_parameter(block.name), retain_graph=True)
            np.testing.assert_allclose(features.g[i, block.start : block.stop], g.flatten().numpy(), rtol=1e-9)
