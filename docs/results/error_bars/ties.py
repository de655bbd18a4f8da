"""What the mark of a ranking says: of neighbours marked as tied, and of others, how many really change places.

    python docs/results/error_bars/ties.py MODELS M SEEDS

such as `few,parity 256 40`. Models are those of measure.py, with 181 training examples and the totals of four queries.
"true" marks by 1.96 deviations of each difference itself, as measured over the seeds: what the best mark would say.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import sdi
from sdi.result.ranking import top_rows
from sdi.scores.standard_error import Z95, Sizes, block_norms, standard_error

sys.path.insert(0, str(Path(__file__).parent))
from measure import BARS, MODELS, apply

TRAIN, QUERIES = 181, 4


def sketched(f: sdi.Features, drawn: sdi.SketchMap, x: np.ndarray) -> Sizes:
    values = np.concatenate([apply(drawn.sketches[b.name], x[:, b.start : b.stop]) for b in f.blocks], axis=1)
    made = sdi.Features(values, np.ones(len(x), int), drawn.blocks, drawn.label)
    return Sizes(made.values, block_norms(made.values, made), None)


def marks(scores: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The order of one query's training examples, and for each but the last whether it is marked."""
    order = np.argsort(-scores)
    ids, late = [str(i) for i in range(len(scores))], np.zeros(len(scores))
    rows = top_rows(ids, order.tolist(), scores, scores, errors, late, len(scores))
    return order, np.array([row.tied for row in rows[:-1]])


def main(models: str, m: str, seeds: str) -> None:
    for model in models.split(","):
        f = MODELS[model](TRAIN + QUERIES)
        train, query = f.g[:-QUERIES], f.g[-QUERIES:]
        exact, shapes = train @ query.T, {b.name: b.shape for b in f.blocks}
        scores, errors = [], {bars: [] for bars in BARS}
        for seed in range(int(seeds)):
            drawn = sdi.SketchMap.draw(shapes, int(m), seed)
            a, b = sketched(f, drawn, train), sketched(f, drawn, query)
            scores.append(a.values @ b.values.T)
            for bars in BARS:
                errors[bars].append(standard_error(drawn, a, b, np.ones(len(drawn.blocks)), bars))
        marked: dict[str, list[np.ndarray]] = {name: [] for name in (*BARS, "true")}
        wrong = []
        for j in range(QUERIES):
            covariance = np.cov(np.array([s[:, j] - exact[:, j] for s in scores]).T)
            variance = np.diag(covariance)
            for k, s in enumerate(scores):
                for bars in BARS:
                    order, tied = marks(s[:, j], errors[bars][k][:, j])
                    marked[bars].append(tied)
                one, other = order[:-1], order[1:]
                deviation = np.sqrt(np.maximum(variance[one] + variance[other] - 2 * covariance[one, other], 0))
                marked["true"].append(s[one, j] - s[other, j] <= Z95 * deviation)
                wrong.append(exact[one, j] < exact[other, j])
        wrongly = np.concatenate(wrong)
        for name, parts in marked.items():
            tied = np.concatenate(parts)
            shares = [f"{wrongly[some].mean():.1%}" if some.any() else "-" for some in (tied, ~tied)]
            print(f"{model:9} m={m} {name:9}: {tied.mean():.1%} marked; in the wrong order: {shares[0]} of these, "
                  f"{shares[1]} of the others", flush=True)  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
