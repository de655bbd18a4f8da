"""What the mark of a ranking says: of neighbours marked as tied, and of others, how many are really the other way round.

    python docs/results/error_bars/ties.py MODELS M SEEDS

such as `few,parity 256 40`. Models are those of measure.py, with 181 training examples and the totals of four queries.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import sdi
from sdi.result.ranking import top_rows
from sdi.scores.standard_error import Sizes, block_norms, standard_error

sys.path.insert(0, str(Path(__file__).parent))
from measure import BARS, MODELS, apply

TRAIN, QUERIES = 181, 4


def sides(f: sdi.Features, drawn: sdi.SketchMap, x: np.ndarray) -> Sizes:
    values = np.concatenate([apply(drawn.sketches[b.name], x[:, b.start : b.stop]) for b in f.blocks], axis=1)
    made = sdi.Features(values, np.ones(len(x), int), drawn.blocks, drawn.label)
    return Sizes(made.values, block_norms(made.values, made), None)


def main(models: str, m: str, seeds: str) -> None:
    for model in models.split(","):
        f = MODELS[model](TRAIN + QUERIES)
        train, query = f.g[:-QUERIES], f.g[-QUERIES:]
        exact, shapes = train @ query.T, {b.name: b.shape for b in f.blocks}
        for bars in BARS:
            wrong: dict[bool, list[bool]] = {True: [], False: []}
            for seed in range(int(seeds)):
                drawn = sdi.SketchMap.draw(shapes, int(m), seed)
                a, b = sides(f, drawn, train), sides(f, drawn, query)
                scores, errors = a.values @ b.values.T, standard_error(drawn, a, b, np.ones(len(drawn.blocks)), bars)
                for j in range(QUERIES):
                    order = np.argsort(-scores[:, j]).tolist()
                    names, late = [str(i) for i in range(len(train))], np.zeros(len(train))
                    rows = top_rows(names, order, scores[:, j], scores[:, j], errors[:, j], late, len(train))
                    for row, following in zip(rows, order[1:], strict=False):
                        wrong[row.tied].append(bool(exact[int(row.train), j] < exact[following, j]))
            marked = len(wrong[True]) / (len(wrong[True]) + len(wrong[False]))
            shares = [f"{np.mean(wrong[k]):.1%}" if wrong[k] else "-" for k in (True, False)]
            print(f"{model:9} m={m} {bars:9}: {marked:.1%} marked; the other way round: {shares[0]} of these, "
                  f"{shares[1]} of the others", flush=True)  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
