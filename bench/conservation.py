"""Conservation at size: sketched steps, summed, against the sketch by definition of autograd's own gradient."""

from __future__ import annotations

import numpy as np
import torch

from sdi.backends import room

from .bars import BARS_OF_CONSERVATION, judge
from .cases import Case
from .interleave import Progress
from .record import Record, Table


def measure_conservation(case: Case, progress: Progress = lambda _: None) -> Record:
    """Relative error of the batch's gradient, of the whole body and of its worst parameter."""
    fast, model, batch, sketch, loop = room("fast"), case.model(), case.batch(), case.sketch(), case.config.loop()
    progress("sketched steps")
    features = fast.featurize(
        model, fast.token_cross_entropy, batch, loop=loop, sketch=sketch, audit="off", memory="hooks"
    )
    progress("autograd")
    body = {name: p for name, p in model.named_parameters() if name in sketch.sketches}
    gradients = torch.autograd.grad(fast.token_cross_entropy(model, batch).sum(), list(body.values()))
    progress("the sketch of autograd's gradient, by definition")
    whole = {name: g.numpy().astype(np.float64) for name, g in zip(body, gradients, strict=True)}
    truth, mine = sketch.apply(whole), features.g.astype(np.float64).sum(axis=0)
    parts = {b.name: _relative(mine[b.start : b.stop], truth[b.start : b.stop]) for b in features.blocks}
    worst = max(parts, key=lambda name: parts[name])
    found = {"body": _relative(mine, truth), "worst": parts[worst], "one": 1.0}
    rows = [["the whole body", f"{found['body']:.2e}"], [f"its worst parameter, {worst}", f"{found['worst']:.2e}"]]
    return Record(
        kind="conservation",
        settings={"work": case.says},
        figures={name: [value] for name, value in found.items() if name != "one"},
        tables=[Table("Sketched conservation, relative error", ("of", "measured"), rows)],
        bars=judge(BARS_OF_CONSERVATION, found),
    )


def _relative(estimate: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(estimate - truth) / np.linalg.norm(truth))
