"""sdi: which training examples shaped which loop step of a looped transformer, with every number checked.

`import sdi` loads the neutral core only (NumPy). Backends come through `sdi.backend("reference")` or
`sdi.backend("fast")`, which import what they need when asked.
"""

from typing import Any

from sdi.backends import Backend, backend
from sdi.errors import AuditError, CoverageError, NonFiniteError, SketchMismatch, SmoothnessError, StoreError
from sdi.inputs.batches import example_ids
from sdi.inputs.checkpoints import Checkpoint, find_checkpoints
from sdi.inputs.looped_config import LoopedConfig
from sdi.inputs.settings import Settings
from sdi.loop import Loop
from sdi.planning.plan import plan
from sdi.planning.plan_text import Plan
from sdi.report.write import write_report
from sdi.result.groups import Groups, group_scores
from sdi.result.parts import Parts, parts
from sdi.result.result import Result, load
from sdi.result.stream_top import stream_top
from sdi.retraining.along_training import along_training
from sdi.retraining.change import Change, random_groups
from sdi.retraining.effects import Effects
from sdi.retraining.judge import Judged, Judgement, judge
from sdi.retraining.optimisers import SGD, Adam, AdamW
from sdi.retraining.retrain import retrain
from sdi.retraining.through_training import through_training
from sdi.retraining.training_run import TrainingRun
from sdi.retrieval.build_index import build_index
from sdi.retrieval.index_file import Index
from sdi.retrieval.retrieve_top import retrieve_top
from sdi.run.attribute import attribute
from sdi.run.choose_m import choose_m
from sdi.run.find_loops import find_loops
from sdi.run.found_loops import FoundLoop, FoundLoops
from sdi.run.spread import spread
from sdi.sketch.load import load_sketch
from sdi.sketch.protocol import LinearSketch, Sketch
from sdi.sketch.shipped.count_and_tensor import CountSketch, Keep, TensorSketch
from sdi.sketch.sketch_map import Block, SketchMap
from sdi.store.features import Features
from sdi.store.store import Store
from sdi.version import __version__

__all__ = [  # noqa: RUF022  (plain order; ruff would put SGD first)
    "Adam",
    "AdamW",
    "AuditError",
    "Backend",
    "Block",
    "Change",
    "Checkpoint",
    "CountSketch",
    "CoverageError",
    "Effects",
    "Features",
    "FoundLoop",
    "FoundLoops",
    "Groups",
    "Index",
    "Judged",
    "Judgement",
    "Keep",
    "LinearSketch",
    "Loop",
    "LoopedConfig",
    "NonFiniteError",
    "Parts",
    "Plan",
    "Result",
    "SGD",
    "Settings",
    "Sketch",
    "SketchMap",
    "SketchMismatch",
    "SmoothnessError",
    "Store",
    "StoreError",
    "TensorSketch",
    "TrainingRun",
    "__version__",
    "along_training",
    "attribute",
    "backend",
    "build_index",
    "choose_m",
    "coverage",
    "example_ids",
    "find_checkpoints",
    "find_loops",
    "group_scores",
    "judge",
    "load",
    "load_sketch",
    "parts",
    "plan",
    "random_groups",
    "retrain",
    "retrieve_top",
    "spread",
    "stream_top",
    "through_training",
    "write_report",
]


def coverage(model: Any, loss: Any, batch: Any, *, loop: Loop, sketch: SketchMap | None = None) -> Any:
    """Run one batch; list every body parameter with its shape, route, sketch and number of calls. Prints as a table.

    model: an `nn.Module`. loss: a function of model and batch that returns one value per example.
    batch: a batch as `loss` takes it. loop: the parameters to cover, and the module whose call begins a step.
    sketch: the sketch to name in the table; by default gradients are kept whole.
    Returns a `Coverage`, which iterates over its rows.
    """
    return backend("fast").coverage(model, loss, batch, loop=loop, sketch=sketch)  # type: ignore[attr-defined]
