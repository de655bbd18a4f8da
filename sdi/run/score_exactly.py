"""score_exactly: scores without a sketch and without a store; all training gradients are held in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sdi.backends import room
from sdi.inputs.checkpoints import Checkpoint
from sdi.inputs.settings import Settings
from sdi.result.result import Result
from sdi.result.score_store import make_result
from sdi.run.fill import Progress, Side, told_where


def score_exactly(
    model: Any,
    loss: Any,
    loop: Any,
    points: Sequence[Checkpoint],
    sides: Mapping[str, Side],
    settings: Settings,
    info: Mapping[str, Any],
    progress: Callable[[Progress], None] = lambda progress: None,
) -> Result:
    """See `attribute(backend="exact")`."""
    mode = settings.mode
    if mode not in ("query", "tracin"):
        raise ValueError(f"mode must be 'query' or 'tracin' with backend='exact', got {mode!r}; use m=None instead")
    for point in points:
        if isinstance(point.eta, dict):
            raise ValueError(f"eta of {point.path} must be one number with backend='exact'; use m=None instead")
    sides["query"].look()
    fast = room("fast")
    main, outside, taus, losses = [], [], [], []
    with fast.weights_kept(model):
        for k, point in enumerate(points):
            point.load_into(model, fast)
            batches, places = {}, {}
            for name, side in sides.items():
                read = [part for part in side.read() if part.ids]  # a batch may be empty
                at = {i: row for row, i in enumerate(i for part in read for i in part.ids)}
                batches[name], places[name] = [part.batch for part in read], [at[i] for i in side.ids]
            with told_where(f"checkpoint {point.path}"):
                scores = fast.exact_scores(
                    model, loss, batches["train"], batches["query"], loop=loop, **settings.pass_options
                )
            for name, count in zip(("train", "query"), scores.outside.shape, strict=True):
                if count != len(places[name]):
                    raise ValueError(
                        f"{name} gave {count} losses for {len(places[name])} examples; the first array of a batch must "
                        "have a row for each of its examples"
                    )
            rows = np.ix_(places["train"], places["query"])
            main.append(point.eta * (scores.sdi if mode == "query" else scores.tracin)[rows])
            outside.append(point.eta * scores.outside[rows] * (mode == "query"))
            taus.append(scores.tau[places["query"]])
            losses.append(scores.losses[places["query"]])
            for name, side in sides.items():
                progress(Progress(k + 1, len(points), name, len(side.ids), 0))
    no_error = [np.zeros(part.shape) for part in main]
    total = [np.zeros(part.shape) for part in outside]
    train, query = sides["train"].ids, sides["query"].ids
    return make_result(points, train, query, mode, main, outside, no_error, total, taus, losses, info)
