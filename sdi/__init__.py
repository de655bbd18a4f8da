"""sdi: which training examples shaped which loop step of a looped transformer, with every number checked.

`import sdi` loads the neutral core only (NumPy). Backends come through `sdi.backend("reference")` or
`sdi.backend("fast")`, which import what they need when asked.
"""

from typing import Any

from sdi.attribute import attribute
from sdi.backends import Backend, backend
from sdi.choose_m import choose_m
from sdi.errors import AuditError, CoverageError, NonFiniteError, SketchMismatch, StoreError
from sdi.features import Features
from sdi.loop import Loop
from sdi.looped_config import LoopedConfig
from sdi.parts import Parts, parts
from sdi.result import Result, load
from sdi.sketch import LinearSketch, Sketch
from sdi.sketch_map import Block, SketchMap
from sdi.sketch_path import load_sketch
from sdi.sketches import CountSketch, Keep, TensorSketch
from sdi.spread import spread
from sdi.store import Store
from sdi.topk import stream_top

__version__ = "0.1.0"

__all__ = [
    "AuditError",
    "Backend",
    "Block",
    "CountSketch",
    "CoverageError",
    "Features",
    "Keep",
    "LinearSketch",
    "Loop",
    "LoopedConfig",
    "NonFiniteError",
    "Parts",
    "Result",
    "Sketch",
    "SketchMap",
    "SketchMismatch",
    "Store",
    "StoreError",
    "TensorSketch",
    "attribute",
    "backend",
    "choose_m",
    "coverage",
    "load",
    "load_sketch",
    "parts",
    "spread",
    "stream_top",
]


def coverage(model: Any, loss: Any, batch: Any, *, loop: Loop, sketch: SketchMap | None = None) -> Any:
    """Every body parameter with its shape, the route and the sketch that serve it and the calls seen, as a table."""
    return backend("fast").coverage(model, loss, batch, loop=loop, sketch=sketch)  # type: ignore[attr-defined]
