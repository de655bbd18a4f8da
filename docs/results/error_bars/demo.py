"""How often the error bars of `sdi demo` hold the exact score, over sketch seeds: all of a run, checkpoints and spread.

    sdi demo --keep FOLDER
    python docs/results/error_bars/demo.py FOLDER SEEDS

The scores of a run share one sketch and miss together, so that the share within one run says little.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import sdi
import sdi.fast as fast
from sdi.backends import room
from sdi.scores.standard_error import Z95


def main(folder: Path, seeds: int) -> None:
    parity: Any = room("experiments.parity")
    settings = parity.configuration("demo")
    run = partial(
        sdi.attribute,
        fast.LoopedTransformer(settings.model_config()),
        loss=parity.loss,
        loop=settings.model_config().loop(),
        checkpoints=sorted((folder / "training" / "checkpoints").iterdir()),
        train=parity.make_loader(parity.training_sample(settings)),
        query=parity.make_loader([parity.probe(settings.test, pattern) for pattern in ("01", "10", "001")]),
    )
    exact = run(backend="exact")
    live = exact.sdi_values != 0
    steps, totals = [], []
    for seed in range(seeds):
        found = run(m=settings.m, seed=seed)
        inside = np.abs(found.sdi_values - exact.sdi_values) <= Z95 * found.arrays["stderr"]
        whole = np.abs(found.tracin_values - exact.tracin_values) <= Z95 * found.arrays["tracin_stderr"]
        steps.append(inside[live].mean())
        totals.append(whole.mean())
        print(f"seed {seed}: {steps[-1]:.1%} of steps, {totals[-1]:.1%} of totals", flush=True)
    for name, shares in (("steps", steps), ("totals", totals)):
        error = np.std(shares, ddof=1) / len(shares) ** 0.5
        print(f"{name}: {np.mean(shares):.1%} ± {error:.1%}, from {min(shares):.1%} to {max(shares):.1%} of a run")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
