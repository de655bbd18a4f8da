"""The exact route: SDI and TracIn without a sketch, against dense features."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import sdi.fast as fast
from sdi import AuditError, Loop, LoopedConfig

CONFIG = LoopedConfig(vocab=7, classes=5, d=8, heads=2, tau=3, injection="concat", prelude=1, coda=1)
LOOP = Loop(body=["read_in", "inject", "core", "coda"], step="inject", end="coda")


def batch(n: int, seed: int, **more: object) -> dict[str, object]:
    g = torch.Generator().manual_seed(seed)
    return {
        "tokens": torch.randint(0, 7, (n, 5), generator=g),
        "targets": torch.randint(0, 5, (n, 5), generator=g),
        **more,
    }


@pytest.fixture
def model() -> torch.nn.Module:
    return fast.LoopedTransformer.init(CONFIG, seed=0, scale=0.3).double()


def dense(model: torch.nn.Module, part: dict[str, object]) -> object:
    return fast.featurize(model, fast.token_cross_entropy, part, loop=LOOP)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"memory": "hooks"}, {"memory": "recompute"}, {"budget": 1 << 20}])
def test_scores_on_the_fly_equal_those_of_dense_features(model, options):
    train, query = [batch(4, 0), batch(2, 1)], [batch(3, 2), batch(2, 3, tau=torch.tensor([2, 1]))]
    exact = fast.exact_scores(model, fast.token_cross_entropy, train, query, loop=LOOP, **options)
    g = [dense(model, part) for part in train]
    phi = [dense(model, part) for part in query]
    for i, a in enumerate(g):
        rows = slice(4 * i, 4 * i + len(a.ids))
        for j, b in enumerate(phi):
            columns = slice(3 * j, 3 * j + len(b.ids))
            steps = b.phi.shape[1]
            np.testing.assert_allclose(exact.sdi[rows, columns, :steps], fast.sdi(a, b), rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(exact.tracin[rows, columns], fast.tracin(a, b), rtol=1e-9, atol=1e-12)
    assert not exact.sdi[:, 3:, 2:].any()
    assert np.abs(exact.outside).max() > 0
    assert exact.tau.tolist() == [3, 3, 3, 2, 1]


@pytest.mark.slow
def test_a_query_over_the_budget_runs_all_the_same(model, monkeypatch):
    from sdi.fast.guard import memory

    monkeypatch.setattr(memory.Meter, "__init__", tiny(memory.Meter.__init__))
    train, query = [batch(1, 0)], [batch(3, 2)]
    exact = fast.exact_scores(model, fast.token_cross_entropy, train, query, loop=LOOP, budget=1 << 20)
    np.testing.assert_allclose(
        exact.sdi, fast.sdi(dense(model, train[0]), dense(model, query[0])), rtol=1e-9, atol=1e-12
    )


def tiny(init):
    return lambda self, limit: init(self, None if limit is None else 10)


@pytest.mark.slow
@pytest.mark.parametrize("audit", ["first", "every"])
def test_queries_are_audited_too(model, audit):
    def loss(model, part):
        losses = fast.token_cross_entropy(model, part)
        return losses / (len(losses) if part["tokens"][0, 0] == 6 else 1)

    plain, divided = batch(3, 2), batch(3, 3)
    plain["tokens"][0, 0], divided["tokens"][0, 0] = 5, 6
    fast.exact_scores(model, loss, [plain], [plain], loop=LOOP, audit=audit)
    for query in ([divided], [plain, divided]) if audit == "every" else ([divided],):
        with pytest.raises(AuditError, match="divided by the size of the batch"):
            fast.exact_scores(model, loss, [plain], query, loop=LOOP, audit=audit)
    fast.exact_scores(model, loss, [plain], [divided], loop=LOOP, audit="off")


@pytest.mark.slow
def test_hooks_that_were_asked_for_stay_hooks(model, monkeypatch):
    from sdi.fast.follow import one_pass as engine
    from sdi.fast.guard import memory

    monkeypatch.setattr(memory.Meter, "__init__", tiny(memory.Meter.__init__))
    monkeypatch.setattr(engine, "recomputing", None)
    train, query = [batch(1, 0)], [batch(3, 2)]
    options = {"loop": LOOP, "memory": "hooks", "budget": 1 << 20, "audit": "off"}
    exact = fast.exact_scores(model, fast.token_cross_entropy, train, query, **options)
    assert exact.sdi.shape == (1, 3, 3)


def test_empty_sides_are_refused(model):
    for train, query in (([], [batch(1, 0)]), ([batch(1, 0)], [])):
        with pytest.raises(ValueError, match="must hold at least one batch, got none"):
            fast.exact_scores(model, fast.token_cross_entropy, train, query, loop=LOOP)


def test_a_gradient_beyond_a_querys_tau_is_refused(model):
    """As dense features refuse it: the loss reads all three steps, whatever tau says."""

    def loss(model, part):
        return fast.token_cross_entropy(model, {k: v for k, v in part.items() if k != "tau"})

    query = batch(2, 3, tau=torch.tensor([2, 3]))
    message = r"values beyond an example's tau must be zero: .*0'? .*took 2 steps, got a gradient at step 3"
    for score in (
        lambda: fast.exact_scores(model, loss, [batch(1, 0)], [query], loop=LOOP),
        lambda: fast.featurize(model, loss, query, loop=LOOP),
    ):
        with pytest.raises(ValueError, match=message):
            score()
