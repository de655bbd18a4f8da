"""demo: the reference on a small looped model, exactly and by sketch, its trajectory printed."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table

from sdi.backends import room
from sdi.looped_config import LoopedConfig
from sdi.scores import sdi, tracin
from sdi.sketch_map import SketchMap


def demo(console: Console) -> None:
    """Attribute two queries of a random looped transformer to six training examples, and print who acts when."""
    reference = room("reference")
    config = LoopedConfig(vocab=8, classes=8, d=16, heads=2, tau=6, injection="add")
    model = reference.LoopedTransformer.init(config, seed=0, scale=0.3)
    rng = np.random.default_rng(0)
    train, query = ({"tokens": rng.integers(0, 8, (n, 10)), "targets": rng.integers(0, 8, (n, 10))} for n in (6, 1))
    loop, shapes = config.loop(), config.shapes()
    sketch = SketchMap.draw({name: shapes[name] for name in loop.select(shapes)}, m=256, seed=0)
    exact, sketched = (
        [
            reference.featurize(model, reference.token_cross_entropy, batch, loop=loop, sketch=s)
            for batch in (train, query)
        ]
        for s in (None, sketch)
    )
    steps, total, estimate = sdi(*exact)[:, 0], tracin(*exact)[:, 0], tracin(*sketched)[:, 0]
    table = Table(title=f"Influence of each training example on the {config.tau} loop steps of one query")
    table.add_column("train")
    for t in range(config.tau):
        table.add_column(str(t + 1), justify="right")
    for name in ("sum", "TracIn", "sketched"):
        table.add_column(name, justify="right")
    for i, row in enumerate(steps):
        numbers = [*row, row.sum(), total[i], estimate[i]]
        table.add_row(str(i), *(f"[{'green' if x > 0 else 'red'}]{x:+.2f}[/]" for x in numbers))
    console.print(table)
    gap = np.abs(steps.sum(axis=1) - total).max()
    console.print(
        f"Steps sum to TracIn within {gap:.1e}. A positive number: training on the example lowers the query's loss."
    )
    console.print(f"{exact[0].values.shape[-1]:,} numbers per step dense, {sketch.size:,} sketched. Next: sdi verify")
