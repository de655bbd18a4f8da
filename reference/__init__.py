"""The reference backend: dense NumPy in float64, shaped like the definitions, slow on purpose.

Its looped transformer has a hand-written forward and a hand-written backpropagation through time; there is no
autograd anywhere, so it is an independent witness for the fast backend. Sketches are applied by their definition.
"""

if __name__ != "sdi.reference":
    raise ImportError("this folder is installed as sdi.reference: write `import sdi.reference`, not `import reference`")


from .featurizer import Featurizer, featurize
from .gradients import gradient, step_gradients
from .loss import TokenCrossEntropy, token_cross_entropy
from .model import LoopedTransformer
from .scores import sdi, sdi_train, step_matrix, tracin
from .training import through_training, train
from .weights import body_shapes, weights_kept, with_weights

__all__ = [
    "Featurizer",
    "LoopedTransformer",
    "TokenCrossEntropy",
    "body_shapes",
    "featurize",
    "gradient",
    "sdi",
    "sdi_train",
    "step_gradients",
    "step_matrix",
    "through_training",
    "token_cross_entropy",
    "tracin",
    "train",
    "weights_kept",
    "with_weights",
]
