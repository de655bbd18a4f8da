"""What to_torch gives is not what apply and apply_outer give."""

from fifth_sceptic.base import Flat, FlatTwin


class Twin32(FlatTwin):
    def apply(self, G):
        import torch

        s = self.s.to(torch.float32)
        flat = G.to(torch.float32).reshape(len(G), s.numel()) * s
        return flat.new_zeros(len(G), self.size).index_add_(1, self.h, flat).to(self.dtype)


class TwinFloat32(Flat):
    """The twin adds up in float32 also in a float64 run: gradients of 1e-50 are 0, those of 1e40 infinite."""

    def to_torch(self, device, dtype):
        return Twin32(self, device, dtype)


class Strided(FlatTwin):
    def apply(self, G):
        import torch

        return super().apply(torch.as_strided(G, G.shape, self._strides(), G.storage_offset()))

    def _strides(self):
        out, step = [], 1
        for k in reversed(self.shape):
            out.insert(0, step)
            step *= k
        return (step, *out)


class TwinStrides(Flat):
    """The twin reads memory as if tensors were contiguous: transposed views are sketched in another order."""

    def to_torch(self, device, dtype):
        return Strided(self, device, dtype)


class Buffered(FlatTwin):
    kept = None

    def apply(self, G):
        y = super().apply(G)
        if self.kept is None or self.kept.shape != y.shape:
            self.kept = y
        return self.kept.copy_(y)


class TwinBuffer(Flat):
    """The twin returns one buffer each time: an answer that was kept changes with the next call."""

    def to_torch(self, device, dtype):
        return Buffered(self, device, dtype)


class Unsigned(FlatTwin):
    def apply(self, G):
        return super().apply(G if len(self.shape) > 1 else G * self.s)


class TwinVector(Flat):
    """The twin forgets the signs of vectors: for matrices it is right."""

    def to_torch(self, device, dtype):
        return Unsigned(self, device, dtype)


class Swapped(FlatTwin):
    def apply_outer(self, u, v):
        if u.shape[-1] == v.shape[-1]:
            u, v = v, u
        return super().apply_outer(u, v)


class TwinSquareSwap(Flat):
    """The twin's apply_outer tells u from v by their sizes, and has them the wrong way round for square matrices."""

    def to_torch(self, device, dtype):
        return Swapped(self, device, dtype)


class Short(FlatTwin):
    def apply_outer(self, u, v):
        return super().apply_outer(u[:, :128], v[:, :128])


class TwinLongTexts(Flat):
    """The twin's apply_outer looks at the first 128 tokens only, the length it was tried with."""

    def to_torch(self, device, dtype):
        return Short(self, device, dtype)


SKETCHES = [
    ("TwinFloat32", TwinFloat32, "broken"),
    ("TwinStrides", TwinStrides, "broken"),
    ("TwinBuffer", TwinBuffer, "broken"),
    ("TwinVector", TwinVector, "broken"),
    ("TwinSquareSwap", TwinSquareSwap, "broken"),
    ("TwinLongTexts", TwinLongTexts, "broken"),
]
