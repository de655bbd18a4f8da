"""Does the release, as we drive it, do the work? Its sketched scores against exact ones, on the same weights and batch.

The expected relative error of TracIn is of the order 1 / sqrt(m); features of the wrong model, batch, order of steps or
scale are off by their own size.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from safetensors.numpy import load_file

from sdi.backends import room

from .authors import authors_worker
from .cases import Case, gpt, sudoku
from .record import Record, Table

ALLOWED = 0.1  # at m=8192, 9 / sqrt(m)


def check_authors(m: int = 8192) -> Record:
    """Raise ValueError unless the release's scores are close to the exact ones."""
    figures, rows = {}, []
    for case in (gpt(4, quick=True), sudoku(quick=True)):
        error = _relative_error(replace(case, m=m))
        figures[case.name] = [error]
        rows.append([case.name, f"{error:.4f}", f"<= {ALLOWED}"])
        if not error <= ALLOWED:
            raise ValueError(
                f"the authors' release is driven wrongly: its SDI on {case.name} is off by {error:.2g} of its size"
            )
    table = Table("SDI from the authors' release against exact SDI", ("work", "relative error", "allowed"), rows)
    return Record("authors", {"m": m}, figures, [table])


def _relative_error(case: Case) -> float:
    fast = room("fast")
    exact = fast.featurize(case.model(), fast.token_cross_entropy, case.batch(), loop=case.config.loop())
    truth = fast.sdi(exact, exact)
    with TemporaryDirectory() as folder, authors_worker(case) as remote:
        file = Path(folder) / "features.safetensors"
        steps = remote.ask("run", save=str(file))["steps"]
        phi = np.concatenate([x for _, x in sorted(load_file(file).items())], axis=-1)
    if steps != case.config.tau:
        raise ValueError(f"the authors' release saw {steps} steps, the model takes {case.config.tau}")
    estimate = np.einsum("id,jtd->ijt", phi.sum(axis=1), phi)
    return float(np.linalg.norm(estimate - truth) / np.linalg.norm(truth))
