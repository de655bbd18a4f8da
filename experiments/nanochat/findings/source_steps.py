"""Sources by steps: how much a training conversation of each source does to each loop step of each task.

Influence of training conversations on held-out ones of all sources at one horizon, averaged over both. Positive: an
update on the source lowers the loss of the task. Intervals are 95%, from a bootstrap that draws anew both the training
conversations of the source and the held-out ones of the task; one in twenty of them misses by chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from sdi.backends import room

from ..chat import Chat
from ..corpus import SOURCES
from ..influence import Tell, influence
from ..settings import Settings

Array = np.ndarray
Numbers = dict[str, Any]


def drawn_means(x: Float[Array, "n q tau"], draws: int, seed: int) -> Float[Array, "draws tau"]:
    """Means over rows and columns that are both drawn with replacement."""
    rng, (n, q, tau) = np.random.default_rng(seed), x.shape
    rows, columns = (rng.multinomial(many, np.full(many, 1 / many), draws) / many for many in (n, q))
    by_row = (rows @ x.reshape(n, q * tau)).reshape(draws, q, tau)
    return np.einsum("kq,kqt->kt", columns, by_row)


def steps_of(x: Float[Array, "n q tau"], draws: int, seed: int) -> Numbers:
    """The mean by step with its interval, the sum over steps with its own, and whether late steps differ from early.

    `late`: the mean of the second half of the steps minus that of the first; of an odd number, without the middle one.
    """
    mean, drawn = x.mean(axis=(0, 1)), drawn_means(x, draws, seed)
    half = len(mean) // 2

    def both(y: Float[Array, "k tau"]) -> Float[Array, "k tau_2"]:
        late = y[:, len(mean) - half :].mean(axis=1) - y[:, :half].mean(axis=1)
        return np.column_stack([y, y.sum(axis=1), late])

    value = both(mean[None])[0].tolist()
    low, high = np.percentile(both(drawn), [2.5, 97.5], axis=0).tolist()
    cells = [{"value": v, "low": a, "high": b} for v, a, b in zip(value, low, high, strict=True)]
    return {"steps": cells[:-2], "sum": cells[-2], "late": cells[-1]}


def table_of(
    found: Float[Array, "n q tau"], of: Sequence[str], on: Sequence[str], draws: int, seed: int
) -> dict[str, dict[str, Numbers]]:
    """For each task, each source's steps. of, on: the source of each row, and of each column."""
    rows, columns = np.array(of), np.array(on)
    return {
        task: {
            source: steps_of(found[np.ix_(rows == source, columns == task)], draws, seed)
            for source in dict.fromkeys(of)
        }
        for task in dict.fromkeys(on)
    }


def first_of(some: Mapping[str, Sequence[Any]], many: int) -> list[Any]:
    """The first conversations of each source."""
    return list(chain.from_iterable(some[name][:many] for name in SOURCES))


def sources_by_steps(
    chat: Chat, settings: Settings, checkpoints: Sequence[Path], store: Path, tell: Tell = lambda progress: None
) -> Numbers:
    """The table of one stage.

    chat: the conversations. settings: with the stage; `focus` steps, full BPTT. checkpoints: of the stage. store: a
    folder for features. tell: called after every batch.
    """
    s, config = settings, settings.model_config(settings.focus, truncated=False)
    train, query = first_of(chat.corpus.train, s.of_source), first_of(chat.corpus.test, s.on_task)
    found = influence(
        room("fast").LoopedTransformer(config), config.loop(), checkpoints,
        chat.batches(train, s.stage == "mid"), chat.batches(query, everything=False), store, s.m, tell,
    )  # fmt: skip
    return {
        "tau": s.focus,
        "table": table_of(found, [c.source for c in train], [c.source for c in query], s.draws, s.seed),
    }
