"""Sketches: the protocol, the shipped ones, their randomness, their variance bounds, and one for each parameter."""

from sdi.sketch.bounds import (
    count_sketch_variance,
    smallest_m,
    tensor_sketch_factor,
    tensor_sketch_variance,
    worst_case,
)
from sdi.sketch.hashing import bits
from sdi.sketch.load import load_sketch
from sdi.sketch.protocol import LinearSketch, Sketch
from sdi.sketch.shipped.count_and_tensor import CountSketch, Keep, TensorSketch
from sdi.sketch.shipped.gaussian import GaussianSketch
from sdi.sketch.shipped.hadamard import HadamardSketch
from sdi.sketch.shipped.kronecker import KroneckerSketch
from sdi.sketch.shipped.mask import MaskSketch
from sdi.sketch.shipped.rademacher import RademacherSketch
from sdi.sketch.shipped.sparse import SparseSketch
from sdi.sketch.sketch_map import Block, SketchMap

__all__ = [
    "Block",
    "CountSketch",
    "GaussianSketch",
    "HadamardSketch",
    "Keep",
    "KroneckerSketch",
    "LinearSketch",
    "MaskSketch",
    "RademacherSketch",
    "Sketch",
    "SketchMap",
    "SparseSketch",
    "TensorSketch",
    "bits",
    "count_sketch_variance",
    "load_sketch",
    "smallest_m",
    "tensor_sketch_factor",
    "tensor_sketch_variance",
    "worst_case",
]
