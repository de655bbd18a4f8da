"""Sketches of a sceptic who had not read the checks: what is not linear."""

from __future__ import annotations

import numpy as np
from sceptic_bases import Count, broken


@broken("linear", "Entries are clipped to [-10, 10], as gradients often are.")
class ClipsEntries(Count):
    def of_flat(self, f):
        return super().of_flat(np.clip(f, -10, 10))


@broken("linear", "Norms above 100 are scaled back to 100.")
class ClipsNorm(Count):
    def of_flat(self, f):
        norm = np.linalg.norm(f.astype(np.float64), axis=-1, keepdims=True)
        return super().of_flat(f * np.minimum(1.0, 100 / np.maximum(norm, 1e-300)).astype(f.dtype))


@broken("linear", "Entries below 1e-6 are taken for zero: small gradients vanish.")
class DropsTiny(Count):
    def of_flat(self, f):
        return super().of_flat(np.where(np.abs(f) < 1e-6, np.zeros_like(f), f))


@broken(
    "linear", "Fixed point with 20 binary digits, for sums that do not depend on the order: small gradients vanish."
)
class FixedPoint(Count):
    def of_flat(self, f):
        return super().of_flat(np.rint(f * 2.0**20)) / np.asarray(2.0**20, dtype=f.dtype)


@broken("linear", "x / (|x| + 1e-12) |x|, to keep digits: gradients of norm 1e-12 are halved.")
class NormWithEpsilon(Count):
    def of_flat(self, f):
        norm = np.linalg.norm(f.astype(np.float64), axis=-1, keepdims=True)
        return super().of_flat(f / (norm + 1e-12)) * norm


@broken("linear", "x / |x| |x| is 0/0 for a gradient of zero.")
class ZeroGivesNaN(Count):
    def of_flat(self, f):
        norm = np.linalg.norm(f.astype(np.float64), axis=-1, keepdims=True)
        with np.errstate(invalid="ignore"):
            return super().of_flat((f / norm).astype(f.dtype)) * norm.astype(f.dtype)


@broken("linear", "Only the tenth of the entries that is largest is kept: top-k sparsification is not linear.")
class TopTenth(Count):
    def of_flat(self, f):
        k = max(1, f.shape[-1] // 10)
        cut = np.sort(np.abs(f), axis=-1)[..., -k, None] if f.size else 0
        return super().of_flat(np.where(np.abs(f) >= cut, f, np.zeros_like(f)))


@broken("linear", "Sketches are brought to norm 1: cosines are kept, inner products are not.")
class Normalises(Count):
    def of_flat(self, f):
        y = super().of_flat(f)
        return y / np.maximum(np.linalg.norm(y.astype(np.float64), axis=-1, keepdims=True), 1e-30)


@broken("linear", "Eight-bit quantisation with a scale per batch: values depend on the batch's largest.")
class EightBits(Count):
    def of_flat(self, f):
        top = np.abs(f).max(initial=0) or 1
        return super().of_flat(np.rint(f / top * 127) / 127 * top)


@broken("linear", "A constant is added: the mean of an empty bucket is not zero.")
class Affine(Count):
    def of_flat(self, f):
        return super().of_flat(f) + np.asarray(1e-3, dtype=np.float32)


@broken("linear", "Randomness inside apply: entries are dropped with probability 1/10 and rescaled.")
class Dropout(Count):
    def of_flat(self, f):
        return super().of_flat(f * (np.random.default_rng().random(f.shape) > 0.1) / 0.9)


@broken(
    "linear",
    "Not-a-number is taken for zero: a diverged example looks like one without influence.",
    "the protocol says nothing of NaN; I hold that swallowing it is wrong",
)
class SwallowsNaN(Count):
    def of_flat(self, f):
        return super().of_flat(np.nan_to_num(f))
