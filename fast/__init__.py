"""The fast backend: PyTorch, sketches taken during backprop, on any `nn.Module`. Its slow twin is `reference/`."""

if __name__ != "sdi.fast":
    raise ImportError("this folder is installed as sdi.fast: write `import sdi.fast`, not `import fast`")

from sdi.scores.products import sdi, sdi_train, step_matrix, tracin

from .coverage_table import Coverage, Covered, coverage
from .exact import ExactScores, exact_scores
from .featurizer import Featurizer, featurize
from .find.record_calls import record_calls
from .model import LoopedTransformer, token_cross_entropy
from .weights import body_shapes, weights_kept, with_weights

__all__ = [
    "Coverage",
    "Covered",
    "ExactScores",
    "Featurizer",
    "LoopedTransformer",
    "body_shapes",
    "coverage",
    "exact_scores",
    "featurize",
    "record_calls",
    "sdi",
    "sdi_train",
    "step_matrix",
    "token_cross_entropy",
    "tracin",
    "weights_kept",
    "with_weights",
]
