"""Numbers are lost to a dtype, or apply_outer is not what apply says."""

import numpy as np

from fifth_sceptic.base import Flat, buckets, signs
from sdi.sketch import tensor_sketch_factor
from sdi.sketch.protocol import matrix_shape


class IntegerOverflow(Flat):
    """Adds up integers in their own type: int8 and int16 wrap round."""

    def apply(self, x):
        x = self._check(x)
        if x.dtype.kind not in "iu":
            return super().apply(x)
        y = np.zeros((*x.shape[: x.ndim - len(self._shape)], self.size), dtype=x.dtype)
        flat = x.reshape(*y.shape[:-1], self.count)
        np.add.at(y, (..., self.h), (flat * self.s).astype(x.dtype))
        return y.astype(np.float64)


class UnsignedNegation(Flat):
    """Takes the negative of unsigned integers before they become floats: -1 is 255, or 18446744073709551615."""

    def apply(self, x):
        x = self._check(x)
        s = self.s.reshape(self._shape)
        return super().apply(np.where(s < 0, -x, x) * s) if x.dtype.kind == "u" else super().apply(x)


class LossScaledHalf(Flat):
    """Puts float32 into float16, times 1024 as a loss scale would: gradients of 1e-10 vanish, those of 100 overflow."""

    def apply(self, x):
        x = self._check(x)
        if x.dtype == np.float32:
            with np.errstate(over="ignore"):
                x = (x * np.float32(1024)).astype(np.float16).astype(np.float32) / np.float32(1024)
        return super().apply(x)


class OuterCast(Flat):
    """apply_outer takes u to the dtype of v: with whole weights, as a bias has, u loses its fractions."""

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        return super().apply_outer(u.astype(v.dtype), v)


class OddFft(Flat):
    """A TensorSketch whose apply_outer calls irfft without n=m: at odd m one number is missing and the others shift."""

    def __init__(self, shape, m, h, s):
        self.hs, self.ss = h, s
        H, S = (h[0][:, None] + h[1]) % m, s[0][:, None] * s[1]
        super().__init__(shape, m, H.ravel(), S.ravel())

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        sides = matrix_shape(tuple(shape))
        h = [buckets(d, m, seed, name, "h", k) for k, d in enumerate(sides)]
        return cls(shape, m, h, [signs(d, seed, name, "s", k) for k, d in enumerate(sides)])

    def tables(self):
        return {f"{k}{i}": t for k, ts in (("h", self.hs), ("s", self.ss)) for i, t in enumerate(ts)}

    def apply_outer(self, u, v):
        spectrum = 1
        for x, h, s in zip(self._check_pair(u, v), self.hs, self.ss, strict=True):
            one = np.zeros((len(h), self.m))
            one[np.arange(len(h)), h] = s
            spectrum = spectrum * np.fft.rfft(x.astype(np.float64) @ one)
        total = spectrum.sum(axis=-2)
        y = np.fft.irfft(total) if total.shape[-1] > 1 else total.real
        return np.concatenate([y, np.zeros((*y.shape[:-1], self.m - y.shape[-1]))], axis=-1)

    def variance_factor(self):
        return tensor_sketch_factor(self.m)


class TokensFirst(Flat):
    """apply_outer adds up the tokens of u and of v before it multiplies them: right for one token."""

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        return super().apply_outer(u.sum(axis=-2, keepdims=True), v.sum(axis=-2, keepdims=True))


class TokenChunkTail(Flat):
    """apply_outer takes 128 tokens at a time, and forgets what is left over of a longer text."""

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        if (T := u.shape[-2]) <= 128:
            return super().apply_outer(u, v)
        parts = [slice(128 * k, 128 * (k + 1)) for k in range(T // 128)]
        return sum(super(TokenChunkTail, self).apply_outer(u[..., part, :], v[..., part, :]) for part in parts)


class VectorIgnoresWeight(Flat):
    """apply_outer of a vector adds up u and does not look at v, the weight of each token."""

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        return self.apply(u.sum(axis=-2)) if len(self._shape) == 1 else super().apply_outer(u, v)


class WritesU(Flat):
    """apply_outer multiplies float64 u by a row's signs in place: the caller's u is another after the call."""

    def __init__(self, shape, m, h, s):
        d1 = shape[0]
        self.row, self.column = s[:d1], s[d1:]
        super().__init__(shape, m, h, (self.row[:, None] * self.column).ravel())

    @classmethod
    def s_of(cls, shape, seed, name):
        return signs(sum(matrix_shape(tuple(shape))), seed, name, "s")

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        if u.dtype == np.float64 and u.flags.writeable:
            u *= self.row
        else:
            u = u * self.row
        G = (u.swapaxes(-1, -2) @ (v * self.column)).reshape(-1, self.count)
        one = np.zeros((self.count, self.size))
        one[np.arange(self.count), self.h] = 1
        return (G @ one).reshape(*u.shape[:-2], self.size)

    def variance_factor(self):
        return 8 / self.size


class ZeroFirstPadding(Flat):
    """apply_outer takes tokens whose first number of u is 0 for padding: behind a ReLU many are not."""

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        return super().apply_outer(u * (u[..., :1] != 0), v)


SKETCHES = [
    ("IntegerOverflow", IntegerOverflow, "broken"),
    ("UnsignedNegation", UnsignedNegation, "broken"),
    ("LossScaledHalf", LossScaledHalf, "broken"),
    ("OuterCast", OuterCast, "broken"),
    ("OddFft", OddFft, "broken"),
    ("TokensFirst", TokensFirst, "broken"),
    ("TokenChunkTail", TokenChunkTail, "broken"),
    ("VectorIgnoresWeight", VectorIgnoresWeight, "broken"),
    ("WritesU", WritesU, "broken"),
    ("ZeroFirstPadding", ZeroFirstPadding, "broken"),
]
