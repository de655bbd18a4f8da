"""The fast backend: PyTorch, sketches taken during backprop, on any `nn.Module`. Its slow twin is `reference/`."""

if __name__ != "sdi.fast":
    raise ImportError("this folder is installed as sdi.fast: write `import sdi.fast`, not `import fast`")

from .coverage import Coverage, Covered, coverage
from .featurize import Featurizer, featurize
from .model import LoopedTransformer, token_cross_entropy
from .scores import sdi, sdi_train, step_matrix, tracin

__all__ = [
    "Coverage",
    "Covered",
    "Featurizer",
    "LoopedTransformer",
    "coverage",
    "featurize",
    "sdi",
    "sdi_train",
    "step_matrix",
    "token_cross_entropy",
    "tracin",
]
