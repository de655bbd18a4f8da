"""What can go wrong in the computation of a sketch: one fault to a class, in its docstring."""

from __future__ import annotations

from math import prod

import numpy as np
from good_sketch import Good


class ScaleByShape(Good):
    """A factor that is right for eight rows only."""

    def apply(self, x):
        return super().apply(x) * np.sqrt(self.of[0] / 8)


class DrawsAgain(Good):
    """The hash is drawn again on each call."""

    def weights(self):
        return np.random.default_rng().choice([-1, 1], size=self.s.size) * super().weights()


class Rounds(Good):
    """Rounds to a hundredth."""

    def apply(self, x):
        return np.round(super().apply(x), 2)


class Centres(Good):
    """Subtracts the mean of the batch."""

    def apply(self, x):
        y = super().apply(x)
        return y - y.mean(axis=tuple(range(y.ndim - 1)), keepdims=True) if y.ndim > 1 and len(y) else y


class ReadsTheBuffer(Good):
    """Wrong for arrays that are not contiguous."""

    def apply(self, x):
        return super().apply(np.ravel(x, order="K").reshape(np.shape(x)))


class WritesToItsArgument(Good):
    """Works in place."""

    def apply(self, x):
        x = np.asarray(x)
        y = super().apply(x)
        if x.flags.writeable:
            x *= 0
        return y


class HalfPrecision(Good):
    """float32 goes through float16."""

    def apply(self, x):
        x = np.asarray(x)
        return super().apply(x.astype(np.float16).astype(np.float32) if x.dtype == np.float32 else x)


class MeansOverTokens(Good):
    """apply_outer averages over tokens where it should add."""

    def apply_outer(self, u, v):
        return super().apply_outer(u, v) / u.shape[-2]


class OuterOfAnotherShape(Good):
    """apply_outer forgets to add over tokens."""

    def apply_outer(self, u, v):
        return self.apply(np.einsum("...ti,...tj->...tij", u, v))


class WrongDense(Good):
    """dense() forgets the signs."""

    def dense(self):
        return np.abs(super().dense())


class TwinWithoutSigns(Good):
    """Its twin on a device forgets the signs."""

    def to_torch(self, device, dtype):
        twin = Twin(self, device, dtype)
        twin.matrix = twin.matrix.abs()
        return twin


class LosesTheOddColumn(Good):
    """Works in pairs of columns, and drops the last one if their number is odd."""

    def apply(self, x):
        x = np.array(x)
        if len(self.of) > 1 and self.of[1] % 2 and self.of[1] > 3:
            x[..., -1] = 0
        return super().apply(x)


class TwiceAbove1000(Good):
    """Large parameters come out twice as large."""

    def apply(self, x):
        return super().apply(x) * (2 if prod(self.of) > 1000 else 1)


class TwiceAbove64(Good):
    """A sketch of more than 64 numbers comes out twice as large."""

    def apply(self, x):
        return super().apply(x) * (2 if self.m > 64 else 1)


class FlushesSmallNumbers(Good):
    """What is below 1e-8 counts as zero."""

    def apply(self, x):
        x = np.asarray(x)
        return super().apply(np.where(np.abs(x) < 1e-8, 0 * x, x))


class Clips(Good):
    """No number is larger than ten million."""

    def apply(self, x):
        return super().apply(np.clip(x, -1e7, 1e7).astype(np.asarray(x).dtype))


class Twin:
    """A twin on a device, and what may go wrong with it."""

    def __init__(self, sketch, device, dtype):
        import torch

        matrix = np.zeros((len(sketch.h), sketch.m))
        matrix[np.arange(len(sketch.h)), sketch.h] = sketch.weights()
        self.matrix = torch.from_numpy(matrix).to(device, dtype)

    def apply(self, G):
        return G.flatten(1) @ self.matrix

    def apply_outer(self, u, v):
        return self.apply(u.transpose(1, 2) @ v)


class TwinOf64Tokens(Good):
    """Its twin drops tokens beyond the 64th."""

    def to_torch(self, device, dtype):
        class Short(Twin):
            def apply_outer(self, u, v):
                return super().apply_outer(u[:, :64], v[:, :64])

        return Short(self, device, dtype)


class TwinOfEightExamples(Good):
    """Its twin drops examples beyond the eighth."""

    def to_torch(self, device, dtype):
        class Few(Twin):
            def apply(self, G):
                y = super().apply(G)
                y[8:] = 0
                return y

        return Few(self, device, dtype)


class TwiceIfSquare(Good):
    """A square matrix comes out twice as large."""

    def apply(self, x):
        return super().apply(x) * (2 if len(self.of) == 2 and self.of[0] == self.of[1] else 1)


class FlipsFromTheFourthOn(Good):
    """The arrays of a batch change their sign from the fourth on."""

    def apply(self, x):
        y = super().apply(x)
        return np.concatenate([y[:3], -y[3:]]) if y.ndim > 1 else y


class FlipsFromTheTenthOn(Good):
    """The arrays of a flat batch change their sign from the tenth on."""

    def apply(self, x):
        y = super().apply(x)
        return np.concatenate([y[:9], -y[9:]]) if y.ndim == 2 else y


class OuterOfEightTokens(Good):
    """apply_outer drops tokens beyond the eighth."""

    def apply_outer(self, u, v):
        return super().apply_outer(u[..., :8, :], v[..., :8, :])
