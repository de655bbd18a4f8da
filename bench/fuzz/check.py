"""check: one drawn model through `sdi.attribute`, in both ways to save memory, against the oracle."""

from __future__ import annotations

import re
import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

import sdi
from sdi import errors
from sdi.inputs.batches import example_ids
from sdi.loop import Loop

from .description import Description
from .untied import Copies, examples, scores, step_gradients
from .write_model import write_model

MEMORIES = ("hooks", "recompute")
TOLERANCE, SINGLE = 1e-8, 1e-4  # of the size of what was summed; where a cell runs in single precision
OURS = tuple(
    vars(errors)[name] for name in ("SketchMismatch", "CoverageError", "NonFiniteError", "StoreError", "AuditError")
)
ROOMS = tuple(str(Path(part).resolve()) for part in (Path(sdi.__file__).parent, Path(__file__).parents[2] / "fast"))
Attribute = Callable[..., Any]


@dataclass(frozen=True)
class Outcome:
    """kind: "right", "wrong", "refused" by one of our errors, or "raw", any other exception."""

    memory: str
    kind: str
    words: str = ""


@dataclass(frozen=True)
class Checked:
    """What became of one model. unreached: some parameter gets nothing from a first batch, which is refused."""

    outcomes: tuple[Outcome, ...]
    unreached: bool
    seconds: float

    @property
    def faults(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.kind in ("wrong", "raw")]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def check(one: Description, attribute: Attribute | None = None) -> Checked:
    """Run it. `attribute` is `sdi.attribute`, unless a test gives one that is broken."""
    began = perf_counter()
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="sdi-fuzz-") as folder:
        warnings.simplefilter("ignore")
        truth, unreached = find_truth(one)
        outcomes = tuple(_run(one, memory, Path(folder), truth, attribute or sdi.attribute) for memory in MEMORIES)
    return Checked(outcomes, unreached, perf_counter() - began)


def namespace(one: Description) -> dict[str, Any]:
    """What the model's text defines."""
    found: dict[str, Any] = {"__name__": "drawn"}
    exec(compile(write_model(one), "<drawn model>", "exec"), found)
    return found


def make_batches(one: Description, text: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Both sides' batches."""
    return {
        side: [text["make_batch"](n, length, one.seed + 100 * place + k) for k, (n, length) in enumerate(sizes)]
        for place, (side, sizes) in enumerate((("train", one.train), ("query", one.query)), start=1)
    }


def etas(one: Description) -> list[float]:
    return [1.0, 0.5][: one.checkpoints]


def find_truth(one: Description) -> tuple[tuple[Any, Any, Any], bool]:
    """The oracle's scores, and whether some parameter gets no gradient from the first batch of a side."""
    text = namespace(one)
    text["checkpoint"] = lambda f, *args, use_reentrant: f(*args)  # run again in backward, it would meet other copies
    body, batches = text["LOOP"]["body"], make_batches(one, text)
    sizes = [p.numel() for p in Copies(text["make_model"](0), body).parameters.values()]
    found: dict[str, list[Any]] = {"train": [], "query": []}
    unreached = False
    for c in range(one.checkpoints):
        for side, of_side in batches.items():
            rows = []
            for k, batch in enumerate(of_side):
                for example in examples(batch, text["SHARED"]):
                    rows.append(step_gradients(text["make_model"](one.seed + c), text["loss"], body, example))
                if k == 0:
                    total = sum(np.abs(phi).sum(0) + np.abs(outside) for phi, outside in rows)
                    unreached |= any(not part.any() for part in np.split(total, np.cumsum(sizes)[:-1]))
            found[side].append(rows)
    return scores(found["train"], found["query"], etas(one), one.mode), unreached


def _run(one: Description, memory: str, folder: Path, truth: Any, attribute: Attribute) -> Outcome:
    text = namespace(one)
    files = []
    for c in range(one.checkpoints):
        files.append(folder / f"{c}.pt")
        torch.save(text["make_model"](one.seed + c).state_dict(), files[-1])
    batches = make_batches(one, text)
    try:
        result = attribute(
            text["make_model"](0),
            loss=text["loss"],
            loop=Loop(**text["LOOP"]),
            checkpoints=files,
            eta=etas(one),
            train=batches["train"],
            query=batches["query"],
            m=None,
            dtype="float64",
            mode=one.mode,
            memory=memory,
        )
    except Exception as error:
        return Outcome(memory, "refused" if is_ours(error) else "raw", f"{type(error).__name__}: {reason(error)}")
    single = any(cell == "cast" for cell, _ in one.cells)
    train, query = example_ids(batches["train"]), example_ids(batches["query"])
    wrong = compare(result, train, query, truth, SINGLE if single else TOLERANCE)
    return Outcome(memory, "wrong" if wrong else "right", wrong)


def compare(
    result: Any, train: Sequence[str], query: Sequence[str], truth: tuple[Any, Any, Any], tolerance: float
) -> str:
    """What is wrong with a result, or nothing. train, query: ids in the order of the truth."""
    sdi_true, tracin_true, size = truth
    place = np.ix_([result.position("train", i) for i in train], [result.position("query", j) for j in query])
    for name, found, true in (("sdi", result.sdi_values, sdi_true), ("tracin", result.tracin_values, tracin_true)):
        found = found[place]
        steps = [(0, max(0, a - b)) for a, b in zip(found.shape, true.shape, strict=True)]
        more = [(0, max(0, b - a)) for a, b in zip(found.shape, true.shape, strict=True)]
        error = np.abs(np.pad(found, more) - np.pad(true, steps))  # a step that one of them lacks is nothing there
        share = error / (size.reshape(*size.shape, *[1] * (error.ndim - 2)) + 1e-30)
        if not share.max() <= tolerance:
            at = tuple(int(k) for k in np.unravel_index(np.nanargmax(share), share.shape))
            return f"{name} at {at} is off by {share.max():.2g} of its size"
    return ""


def is_ours(error: Exception) -> bool:
    """One of sdi's errors, or a built-in one that a `raise` of ours has raised, and no other exception passing through.

    >>> is_ours(errors.AuditError("x")), is_ours(ValueError("not raised by us"))
    (True, False)
    """
    if isinstance(error, OURS):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    return (
        isinstance(error, (ValueError, TypeError, RuntimeError))
        and last is not None
        and str(Path(last.filename).resolve()).startswith(ROOMS)
        and (last.line or "").startswith("raise ")
    )


def reason(error: Exception) -> str:
    """The first words of a message, without names and numbers.

    >>> reason(ValueError("m must be at least 1, got 'x' of 12; or so"))
    'm must be at least #, got _ of #'
    """
    words = re.sub(r" \((train|query), checkpoint [^)]*\)", "", str(error))
    words = re.sub(r"(?<!\w)'[^']*'(?!\w)", "_", words)
    words = re.sub(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?", "#", words)
    return re.split(r"[:;\n]", words)[0][:110].strip()
