"""`sdi plan`: `sdi.plan` on a config's run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import sdi
from sdi.planning.plan import DECADES
from sdi.run.runs import Run


def plan_config(
    config: Path,
    examples: Sequence[str],
    queries: int | None,
    hosts: int,
    device: str | None,
    tell: Callable[[str], None] = lambda text: None,
) -> sdi.Plan:
    """The plan of a config's run. examples: numbers as text, such as "1e6"."""
    sizes = [parse_count(text) for text in examples] or DECADES
    the = Run.read(config)
    c = the.config
    return sdi.plan(
        the.model,
        loss=the.script.loss,
        loop=c.loop,
        checkpoints=c.checkpoints,
        train=the.loaders["train"],
        query=the.loaders["query"],
        eta=c.eta,
        store=c.store,
        examples=sizes,
        queries=queries,
        hosts=hosts,
        device=device,
        progress=tell,
        settings=c.settings,
    )


def parse_count(text: str) -> int:
    """A number of examples.

    >>> parse_count("1e6"), parse_count("2_500")
    (1000000, 2500)
    """
    with suppress(ValueError, OverflowError):
        value = int(text) if text.replace("_", "").isdigit() else float(text)
        if value == int(value) and value >= 1:
            return int(value)
    raise ValueError(f"--examples must be a number of training examples such as 250000 or 1e6, got {text!r}")
