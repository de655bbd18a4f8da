"""parts: influence split over the body's parameters as well: which module, at which step.

The parts of a training example sum to its row of `sdi`, and to its TracIn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from sdi.arguments import some_of
from sdi.errors import nearest_or_first
from sdi.files import expand
from sdi.inputs.checkpoints import Checkpoint
from sdi.result.as_xarray import as_xarray
from sdi.result.figure_style import label
from sdi.result.question import read_steps
from sdi.result.score_store import etas, stack, weigh
from sdi.scores import products as scores
from sdi.scores.standard_error import sizes, standard_error_by_parameter
from sdi.store.store import Store

if TYPE_CHECKING:
    from xarray import DataArray

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Parts:
    """The influence of some training examples on one query, split by parameter; what `parts` returns."""

    query: str  # its id
    sdi: DataArray  # (train, parameter, step)
    tracin: DataArray  # (train, parameter): the sum over steps, and what enters outside the loop
    stderr: DataArray  # standard errors of sdi
    tracin_stderr: DataArray  # standard errors of tracin

    def plot(self, path: str | Path | None = None, *, train: Any = None, ax: Any = None, style: str = "screen") -> Any:
        """Draw the influence of one training example, a row for each parameter, the strongest first; return the axes.

        path: a picture to write. train: the example's id; by default the first. ax: axes to draw on.
        style: "screen"; or "paper", which fits one column of two. Needs matplotlib, the extra [plot].
        """
        from sdi.result.plot import plot_heatmap

        names = [str(i) for i in self.sdi.coords["train"].values]
        train = names[0] if train is None else str(train)
        if train not in names:
            raise ValueError(f"no train {train!r} among {len(names)}{nearest_or_first(train, names)}")
        parameters = [str(name) for name in self.sdi.coords["parameter"].values]
        title, file = f"{label(train)} on query {label(self.query)}", None if path is None else expand(path)
        values = self.sdi.sel(train=train).values
        return plot_heatmap(values, parameters, title, "query", path=file, ax=ax, style=style)


def parts(
    store: Store, checkpoints: Sequence[Checkpoint], query: str, train: Sequence[str], stderr: str = "auto"
) -> Parts:
    """The influence of some training examples on the steps of a query, split by parameter, with standard errors.

    store: a store that holds the steps of its queries. checkpoints: those to sum over, from `find_checkpoints`.
    query: the id of a query. train: ids of training examples.
    stderr: "bound", "estimated", or "auto", as the store was begun.
    Returns `Parts`: `sdi` and `stderr` (train, parameter, step).
    """
    bars = store.bars(stderr)
    some_of("checkpoints", checkpoints, "checkpoints, as `find_checkpoints` gives")
    some_of("train", train, "ids")
    steps, whole = [], []
    errors: list[Array] = []
    whole_errors: list[Array] = []
    for checkpoint in checkpoints:
        examples = store.read(checkpoint.key, "train", train)
        asked = read_steps(store, checkpoint, [query])
        eta = etas(checkpoint, store)
        weighted = weigh(asked, eta)
        split = scores.by_parameter(examples, weighted)
        steps.append(np.stack([part[:, 0] for part in split.values()], axis=1))
        whole.append(_products(examples.g, weighted.g[0], store))
        a = sizes(examples, store.dtype, whole=True)
        for found, summed in ((errors, False), (whole_errors, True)):
            b = sizes(asked, store.dtype, whole=summed)
            found.append(standard_error_by_parameter(store.sketch, a, b, eta, bars)[:, 0])
    coords: dict[str, tuple[Any, ...]] = {"train": tuple(train), "parameter": tuple(b.name for b in store.blocks)}

    def labelled(name: str, arrays: Sequence[Array]) -> DataArray:
        total = stack(arrays).sum(axis=0)  # standard errors, too: all checkpoints share one sketch
        here = {**coords, "step": tuple(range(1, total.shape[2] + 1))} if total.ndim == 3 else coords
        return as_xarray(total, tuple(here), here, name)

    return Parts(
        query=str(query),
        sdi=labelled("sdi", steps),
        tracin=labelled("tracin", whole),
        stderr=labelled("stderr", [e.swapaxes(1, 2) for e in errors]),
        tracin_stderr=labelled("tracin_stderr", whole_errors),
    )


def _products(g_train: Float[Array, "n D"], g_query: Float[Array, "D"], store: Store) -> Float[Array, "n P"]:
    return np.add.reduceat(g_train * g_query, [b.start for b in store.blocks], axis=1, dtype=np.float64)
