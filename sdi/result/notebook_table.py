"""What a notebook shows of a result: a row for each of the first queries."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdi.printable import html_table, spark_signs
from sdi.scores.standard_error import Z95

LISTED = 10  # queries


def result_table(result: Any) -> str:
    """HTML: of each query its loss, its strongest training example and that one's trajectory. result: a `Result`."""
    rows, steps = [], result.mode in ("query", "train")
    for j, query in enumerate(result.labels["query"][:LISTED]):
        i = int(np.abs(result.tracin_values[:, j]).argmax())
        score, error = result.tracin_values[i, j], Z95 * result.arrays["tracin_stderr"][i, j]
        drawn = "".join(sign for sign, _ in spark_signs(result.sdi_values[i, j].tolist())) if steps else ""
        loss = f"{result.arrays['loss'][-1, j]:.4g}" if "loss" in result.arrays else ""
        rows.append((query, loss, result.labels["train"][i], f"{score:+.4g} ± {error:.2g}", drawn))
    more = f"; the first {LISTED} queries" if len(result.labels["query"]) > LISTED else ""
    head = ("query", "loss", "strongest training example", "TracIn ± 95%", "|influence| by step" if steps else "")
    notes = "".join(f"; note: {note}" for note in result.notes)
    return html_table(f"{result!r}{more}{notes}", head, rows)
