"""sdi: which training examples shaped which loop step of a looped transformer, with every number checked.

`import sdi` loads the neutral core only (NumPy). Backends come through `sdi.backend("reference")` or
`sdi.backend("fast")`, which import what they need when asked.
"""

from sdi.backends import Backend, backend
from sdi.errors import AuditError, CoverageError, NonFiniteError, SketchMismatch
from sdi.features import Features
from sdi.loop import Loop
from sdi.looped_config import LoopedConfig
from sdi.sketch_map import Block, SketchMap
from sdi.sketches import CountSketch, Keep, TensorSketch

__version__ = "0.1.0"

__all__ = [
    "AuditError",
    "Backend",
    "Block",
    "CountSketch",
    "CoverageError",
    "Features",
    "Keep",
    "Loop",
    "LoopedConfig",
    "NonFiniteError",
    "SketchMap",
    "SketchMismatch",
    "TensorSketch",
    "backend",
]
