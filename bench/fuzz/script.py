"""script: a description as a program of its own that shows what went wrong: the model, the oracle and the run."""

from __future__ import annotations

import inspect

from . import untied
from .check import Outcome, etas
from .description import Description
from .write_model import HEAD, write_model

IMPORTS = (
    f"import tempfile\nfrom pathlib import Path\nfrom typing import Any\n\nimport numpy as np\n{HEAD}\nimport sdi\n"
)
RUN = """

def main():
    truth = {{"train": [], "query": []}}
    batches = {{
        "train": [make_batch(n, length, {seed} + 100 + k) for k, (n, length) in enumerate({train})],
        "query": [make_batch(n, length, {seed} + 200 + k) for k, (n, length) in enumerate({query})],
    }}
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for c in range({checkpoints}):
            files.append(Path(folder) / f"{{c}}.pt")
            torch.save(make_model({seed} + c).state_dict(), files[-1])
        result = sdi.attribute(
            make_model(0), loss=loss, loop=sdi.Loop(**LOOP), checkpoints=files, eta={eta}, **batches,
            m=None, dtype="float64", mode={mode!r}, memory={memory!r},
        )
    globals()["checkpoint"] = lambda f, *args, use_reentrant: f(*args)
    for c in range({checkpoints}):
        for side in truth:
            alone = [example for batch in batches[side] for example in examples(batch, SHARED)]
            truth[side].append([step_gradients(make_model({seed} + c), loss, LOOP["body"], x) for x in alone])
    sdi_true, tracin_true, size = scores(truth["train"], truth["query"], {eta}, {mode!r})
    order = {{side: list(sdi.example_ids(batches[side])) for side in truth}}
    for name, true in (("sdi", sdi_true), ("tracin", tracin_true)):
        found = getattr(result, name).sel(order).values
        if found.shape != true.shape:
            print(name, "has the shape", found.shape, "and should have", true.shape)
        else:
            print(name, "is off by", np.abs(found - true).max(), "where the largest product is", size.max())


main()
"""


def write_script(one: Description, fault: Outcome) -> str:
    """Plain Python that needs only torch, NumPy and sdi."""
    oracle = inspect.getsource(untied)
    oracle = oracle[oracle.index("def body_parameters") :]
    head = (
        f'"""{fault.kind}, memory={fault.memory!r}: {fault.words}\n\nDrawn by sdi-bench fuzz:\n{one.to_json()}\n"""\n'
    )
    model = write_model(one, IMPORTS)
    run = RUN.format(
        seed=one.seed,
        train=list(one.train),
        query=list(one.query),
        checkpoints=one.checkpoints,
        eta=etas(one),
        mode=one.mode,
        memory=fault.memory,
    )
    return f"{head}\n{model}\n\n{oracle}{run}"
