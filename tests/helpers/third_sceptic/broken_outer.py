"""Broken: apply is right, but apply_outer or dense is something else, for some tokens, shapes, dtypes or layouts."""

import numpy as np

from third_sceptic.base import Count, Sides


class OuterOnce(Count):
    """Equal tokens, as of a repeated word, are counted once: the sum over tokens loses their number."""

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        if u.shape[-2] < 2:
            return super().apply_outer(u, v)
        lead = u.shape[:-2]
        u, v = (side.reshape(-1, *side.shape[-2:]) for side in (u, v))
        y = np.zeros((len(u), self.size))
        for k, (one, two) in enumerate(zip(u, v, strict=True)):
            _, first = np.unique(np.concatenate([one, two], axis=1), axis=0, return_index=True)
            y[k] = super().apply_outer(one[first], two[first])
        return y.reshape(*lead, self.size)


class OuterSkipsPadding(Count):
    """Tokens whose first feature is zero are taken for padding and skipped: after a ReLU that is half of them."""

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        return super().apply_outer(np.where(v[..., :1] == 0, 0, u), v)


class OuterSkipsBadTokens(Count):
    """Tokens with NaN or infinity are set to zero on the way: a diverged example looks finite, by this way only."""

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        good = (np.isfinite(u).all(axis=-1) & np.isfinite(v).all(axis=-1))[..., None]
        return super().apply_outer(np.where(good, u, 0), np.where(good, v, 0))


class OuterOf512(Count):
    """Only the first 512 tokens are read: longer contexts lose their end."""

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        return super().apply_outer(u[..., :512, :], v[..., :512, :])


class OuterWithoutV(Count):
    """For a vector, v is taken to be 1, as it is for biases: weights of tokens are lost."""

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        return super().apply_outer(u, np.ones_like(v) if len(self.shape) == 1 else v)


class OuterInDtypeOfU(Count):
    """v is cast to the dtype of u: with integer u (one-hot tokens) and real v, all digits after the point are lost."""

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        return super().apply_outer(u, v.astype(u.dtype))


class OuterWrites(Count):
    """The signs of v are written into the argument on the way: the user's activations are changed."""

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        y = super().apply_outer(u, v)
        if v.flags.writeable and v.dtype.kind == "f" and v.shape[-2] > 1:
            v *= np.where(np.arange(v.shape[-1]) % 2, -1, 1)
        return y


class OuterMixesExamples(Count):
    """Of two leading axes, the sum runs over the first one's examples, too: all get the same mean."""

    def apply_outer(self, u, v):
        y = super().apply_outer(u, v)
        return np.broadcast_to(y.mean(axis=0), y.shape).copy() if y.ndim == 3 else y


class OuterInSingle(Sides):
    """By FFT in single precision with complex64: seven digits of float64 gradients, and none beyond 1e38."""

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        a, b = (self._side(side, name).astype(np.float32) for side, name in ((u, "rows"), (v, "cols")))
        spectrum = (np.fft.rfft(a) * np.fft.rfft(b)).astype(np.complex64)
        return np.fft.irfft(spectrum.sum(axis=-2), n=self.m)

    def _side(self, x, name):
        return x @ (np.eye(self.m)[self.t[f"{name}.h"]] * self.t[f"{name}.s"][:, None])


class OuterEvenLength(Sides):
    """By FFT, whose inverse is not told m: for odd m it gives m - 1 numbers of another length, padded with a zero."""

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        a, b = self._side(u, "rows"), self._side(v, "cols")
        y = np.fft.irfft((np.fft.rfft(a) * np.fft.rfft(b)).sum(axis=-2))
        return np.concatenate([y, np.zeros((*y.shape[:-1], self.m - y.shape[-1]))], axis=-1)

    def _side(self, x, name):
        return x @ (np.eye(self.m)[self.t[f"{name}.h"]] * self.t[f"{name}.s"][:, None])


class OuterKeepsLargest(Count):
    """Above 64 tokens only the 64 with the largest |u| |v| are kept, 'which is nearly all': flat contexts lose most."""

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        if u.shape[-2] > 64:
            weight = np.linalg.norm(u, axis=-1) * np.linalg.norm(v, axis=-1)
            at = np.argsort(-weight, axis=-1)[..., :64, None]
            u, v = (np.take_along_axis(side, at, axis=-2) for side in (u, v))
        return super().apply_outer(u, v)


class OuterRemembersV(Count):
    """Remembers the object v of the last call, as the same activations come again, with a sum over its tokens: if the
    buffer was refilled in place, the old activations are used."""

    last = None

    def apply_outer(self, u, v):
        if self.last is None or self.last[0] is not v:
            self.last = (v, np.array(v))
        return super().apply_outer(u, self.last[1])


class DenseOfAnother(Count):
    """dense() is stored at the first call in a table of the class, by shape and m: other seeds get that matrix."""

    stored: dict = {}  # noqa: RUF012

    def dense(self):
        return self.stored.setdefault((self.shape, self.m), super().dense())


class DenseAbsolute(Count):
    """dense() of a parameter of more than 1,000 entries has no signs, to be stored as booleans."""

    def dense(self):
        matrix = super().dense()
        return np.abs(matrix) if matrix.shape[1] > 1000 else matrix
