"""exact: scores without a sketch and without a store, training gradients held in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from sdi.backends import room
from sdi.batches import read_batches
from sdi.checkpoints import Checkpoint
from sdi.fill import Progress, check_same_examples
from sdi.result import Result
from sdi.scoring import make_result


def score_exactly(
    model: Any,
    loss: Any,
    loop: Any,
    points: Sequence[Checkpoint],
    loaders: Mapping[str, Iterable[Any]],
    mode: str,
    options: Mapping[str, Any],
    info: Mapping[str, Any],
    progress: Callable[[Progress], None] = lambda progress: None,
) -> Result:
    """See `attribute(backend="exact")`."""
    if mode not in ("query", "tracin"):
        raise ValueError(f"mode must be 'query' or 'tracin' with backend='exact', got {mode!r}; use m=None instead")
    for point in points:
        if isinstance(point.eta, dict):
            raise ValueError(f"eta of {point.path} must be one number with backend='exact'; use m=None instead")
    fast = room("fast")
    main, outside, taus = [], [], []
    ids: dict[str, tuple[str, ...]] = {}
    with fast.weights_kept(model):
        for k, point in enumerate(points):
            point.load_into(model, fast)
            batches, places = {}, {}
            for side, loader in loaders.items():
                read = list(read_batches(loader, side))
                seen = tuple(i for part in read for i in part.ids)
                check_same_examples(side, ids.setdefault(side, seen), seen)
                at = {i: k for k, i in enumerate(seen)}
                batches[side], places[side] = [part.batch for part in read], [at[i] for i in ids[side]]
            scores = fast.exact_scores(model, loss, batches["train"], batches["query"], loop=loop, **options)
            rows = np.ix_(places["train"], places["query"])
            main.append(point.eta * (scores.sdi if mode == "query" else scores.tracin)[rows])
            outside.append(point.eta * scores.outside[rows] * (mode == "query"))
            taus.append(scores.tau[places["query"]])
            for side, names in ids.items():
                progress(Progress(k + 1, len(points), side, len(names), 0))
    no_error = [np.zeros(part.shape) for part in main]
    total = [np.zeros(part.shape) for part in outside]
    return make_result(points, ids["train"], ids["query"], mode, main, outside, no_error, total, taus, info)
