"""Errata of the main text: shapes, sizes and remarks."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod

import numpy as np

from sdi.inputs.looped_config import LoopedConfig
from sdi.sketch.shipped.count_and_tensor import TensorSketch
from sdi.sketch.sketch_map import SketchMap

from ..backends.storage import body_shapes
from ..count_sketch.older_bound import even_factor, older_factor
from ..machinery.moments import all_signs
from .erratum import Decision, erratum, variance_of


@erratum(
    "body size",
    where="Main text, proposition on the unrolled gradient",
    written="a matrix d_out x d_in and its bias have d_out d_in + d_in entries",
    true="d_out d_in + d_out: the bias is added to the output",
    how="counting the entries of W and of the b that W a + b allows, with d_out != d_in",
)
def _body_size() -> Decision:
    d_out, d_in = 3, 5
    W, a = np.ones((d_out, d_in)), np.ones(d_in)
    count = W.size + (W @ a).size
    return count == d_out * d_in + d_in, count == d_out * d_in + d_out, f"3 x 5: {count} entries, not {15 + d_in}"


@erratum(
    "a CountSketch of the tensor product",
    where="Main text, where TensorSketch is introduced",
    written="TensorSketch is a CountSketch of the outer product",
    true="not as CountSketch is defined: its signs S(i, j) = s(i) s'(j) are not 4-wise independent, and its variance "
    "exceeds CountSketch's bound",
    how="the product of the signs of a 2 x 2 block over all s and s', and ones(2, 2) at m = 4",
)
def _a_count_sketch() -> Decision:
    blocks = [int(np.outer(s, t).prod()) for s, t in product(all_signs(2), repeat=2)]
    ones = np.ones((2, 2), dtype=np.int64)
    variance, count_bound = variance_of(ones, ones, 4), Fraction(2, 4) * 16
    mean = Fraction(sum(blocks), len(blocks))
    text = f"the four signs' product has mean {mean}, not 0; Var {variance} > {count_bound} = (2/m)|X|^2|Y|^2"
    return mean == 0, mean == 1 and variance > count_bound, text


@erratum(
    "sketched conservation",
    where="Main text, display on conservation after sketching",
    written="the sketched gradient at z is the sum of the sketched steps at z'",
    true="of the sketched steps at z itself: both sides belong to one example",
    how="integer step gradients of two examples, one TensorSketch",
)
def _sketched_conservation() -> Decision:
    phi, phi_other = np.random.default_rng(0).integers(-5, 6, (2, 4, 6, 7))  # examples, steps, rows, columns
    sketch = TensorSketch.draw((6, 7), 16, name="conservation")
    left = sketch.apply(phi.sum(0))
    own, other = sketch.apply(phi).sum(0), sketch.apply(phi_other).sum(0)
    text = f"sum over steps at z differs in {(left != own).sum()} of 16 buckets, at z' in {(left != other).sum()}"
    return np.array_equal(left, other), np.array_equal(left, own), text


@erratum(
    "memory of the looped GPT",
    where="Main text, paragraph on systems",
    written="a body of the order of 100M parameters in 48 tensors, about 1000 times less memory",
    true="29,491,200 parameters in 25 tensors, 576 times less at m = 2048",
    how="the shapes of the 135.1M-parameter configuration",
    rests_on="a reconstructed configuration: the paper gives 135.1M parameters and 2 + 4 + 2 blocks; width 768, "
    "vocabulary 50304, blocks without biases and the injection are ours, and come to 135,069,696",
)
def _memory() -> Decision:
    config = LoopedConfig.looped_gpt()
    shapes = body_shapes(config)
    body = sum(map(prod, shapes.values()))
    ratio = Fraction(body, SketchMap.draw(shapes, m=2048).size)
    written = body > 50_000_000 and len(shapes) == 48
    text = f"{config.parameter_count:,} parameters, {body:,} in the loop, {len(shapes)} tensors, ratio {float(ratio):g}"
    return written, body == 29_491_200 and len(shapes) == 25 and ratio == 576, text


@erratum(
    "width of the returned gradients",
    where="Main text, algorithm, last line",
    written="the sketched gradients of a batch have shape B x m",
    true="B x (alpha m) for alpha tensors of more than m entries: sketches are concatenated, not summed",
    how="the shape of a SketchMap's output for two matrices and a vector",
)
def _returned_width() -> Decision:
    shapes = {"W": (9, 8), "V": (8, 9), "b": (40,)}
    batch = {name: np.ones((5, *shape)) for name, shape in shapes.items()}
    got = SketchMap.draw(shapes, m=16).apply(batch).shape
    return got == (5, 16), got == (5, 3 * 16), f"B=5, m=16, 3 tensors: shape {got}"


@erratum(
    "strictly tighter",
    where="Main text and appendix, remarks on the older factor",
    written="4/m^2 + 6/m is strictly below 8/m for m >= 2",
    true="for m >= 3; at m = 2 the two are equal",
    how="fractions, every m up to 4096",
)
def _strictly_tighter() -> Decision:
    smaller = {m: even_factor(m) < older_factor(m) for m in range(2, 4097)}
    corrected = all(smaller[m] for m in smaller if m >= 3) and even_factor(2) == older_factor(2)
    return all(smaller.values()), corrected, f"m=2: {even_factor(2)} and {older_factor(2)}"
