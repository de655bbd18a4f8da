"""Right: dense, orthogonal and transformed sketches, whose mean and claimed variance are true."""

from math import prod, sqrt

import numpy as np

from sdi.sketch import bits
from third_sceptic.base import MOST, Dense, Hadamard, Table, normal, power_of_two, scatter, signs_of, uniform, walsh


class NumpyNormals(Dense):
    """A Gaussian projection of NumPy's own generator, seeded with words of (seed, name), in float32; 2 / m."""

    @classmethod
    def matrix(cls, m, d, seed, name):
        words = bits(4, seed, name).tolist()
        return np.random.default_rng(words).standard_normal((m, d), dtype=np.float32)


class PackedSigns(Dense):
    """A projection by signs whose table is packed bits; 2 / m."""

    @classmethod
    def matrix(cls, m, d, seed, name):
        return np.packbits((bits(m * d, seed, name) & np.uint64(1)).astype(np.uint8))

    def rows(self, x):
        minus = np.unpackbits(self.t["table"], count=self.m * x.shape[1]).reshape(self.m, -1)
        return x @ (1.0 - 2.0 * minus).T / sqrt(self.m)


class UniformEntries(Dense):
    """Entries uniform between -sqrt(3) and sqrt(3): their kurtosis is 1.8, so 2 / m holds."""

    @classmethod
    def matrix(cls, m, d, seed, name):
        return ((2 * uniform(m * d, seed, name) - 1) * sqrt(3)).reshape(m, d)


class BinomialBytes(Dense):
    """Entries are sums of 16 signs over 4, as int8: variance 1, kurtosis 3 - 1/8; 2 / m."""

    @classmethod
    def matrix(cls, m, d, seed, name):
        ones = np.unpackbits(bits(-(-m * d // 4), seed, name).astype("<u8").view(np.uint8)).reshape(-1, 16).sum(axis=1)
        return (2 * ones[: m * d].astype(np.int8) - 16).astype(np.int8).reshape(m, d)

    def rows(self, x):
        return x @ self.t["table"].T.astype(np.float64) / (4 * sqrt(self.m))


class LaplaceTrueClaim(Dense):
    """Laplace entries, whose kurtosis of 6 makes 5 / m of the 2 / m; claimed as such."""

    factor = 5.0

    @classmethod
    def matrix(cls, m, d, seed, name):
        u = uniform(m * d, seed, name) - 0.5
        return (-np.sign(u) * np.log1p(-2 * np.abs(u)) / sqrt(2)).reshape(m, d)


class VerySparseTrueClaim(Dense):
    """Entries +-sqrt(q) with probability 1 / q, q = 4 + D^(1/4): single entries have (q - 1) / m, the claim."""

    @classmethod
    def matrix(cls, m, d, seed, name):
        q = 4 + d**0.25
        chosen = uniform(m * d, seed, name, "at") < 1 / q
        return (chosen * sqrt(q) * signs_of(bits(m * d, seed, name, "s"))).reshape(m, d)

    def variance_factor(self):
        return (3 + prod(self.shape) ** 0.25) / self.m


class UnitRows(Dense):
    """Rows of a Gaussian matrix scaled to the length sqrt(D) each: uniform on spheres, so within 2 / m."""

    @classmethod
    def matrix(cls, m, d, seed, name):
        table = super().matrix(m, d, seed, name)
        return table * sqrt(d) / np.linalg.norm(table, axis=1, keepdims=True)


class UnitColumns(Dense):
    """Columns of a Gaussian matrix scaled to one length: single entries have no error, all others at most 2 / m."""

    @classmethod
    def matrix(cls, m, d, seed, name):
        table = super().matrix(m, d, seed, name)
        return table * sqrt(m) / np.linalg.norm(table, axis=0)


class Haar(Table):
    """m orthonormal rows, uniformly random, times sqrt(D / m): at most 2 (D - m) / (m (D + 2)), 0 if m >= D."""

    @classmethod
    def make(cls, shape, m, seed, name):
        d = prod(shape)
        if d > 600:
            raise ValueError(f"shape must have at most 600 entries for an orthogonal sketch, got {shape}")
        q, r = np.linalg.qr(normal(d * min(m, d), seed, name).reshape(d, -1))
        return {"table": (q * np.sign(np.diag(r))).T}

    @property
    def size(self):
        return len(self.t["table"])

    def rows(self, x):
        return x @ self.t["table"].T * sqrt(x.shape[1] / self.size)

    def variance_factor(self):
        d = prod(self.shape)
        return 2 * (d - self.size) / (self.size * (d + 2))


class Reflection(Table):
    """An isometry: the parameter reflected at a random plane, all D numbers, whatever m is."""

    @classmethod
    def make(cls, shape, m, seed, name):
        axis = normal(prod(shape), seed, name)
        return {"axis": axis / np.linalg.norm(axis)}

    @property
    def size(self):
        return prod(self.shape)

    def rows(self, x):
        return x - 2 * (x @ self.t["axis"])[:, None] * self.t["axis"]

    def variance_factor(self):
        return 0.0


class HadamardReplaced(Hadamard):
    """Signs, Walsh-Hadamard transform, m of its entries with replacement; 2 / m."""


class HadamardDistinct(Hadamard):
    """Signs, Walsh-Hadamard transform, at most m distinct entries: 2 / m times (N - m) / (N - 1)."""

    @classmethod
    def make(cls, shape, m, seed, name):
        d = prod(shape)
        p = power_of_two(d)
        at = np.sort(np.argsort(bits(p, seed, name, "at"), kind="stable")[:m])
        return {"s": signs_of(bits(d, seed, name, "s")), "at": at}

    @property
    def size(self):
        return len(self.t["at"])

    def scale(self):
        return 1 / sqrt(self.size)

    def variance_factor(self):
        p = power_of_two(prod(self.shape))
        return (p - self.size) / max(p - 1, 1) * 2 / self.size


class Cosines(Hadamard):
    """Signs, cosine transform, m of its entries with replacement. Squares of its entries are up to 2 / D: 5 / m."""

    factor = 5.0

    @classmethod
    def make(cls, shape, m, seed, name):
        d = prod(shape)
        at = (bits(m, seed, name, "at") % np.uint64(d)).astype(np.int64)
        return {"s": signs_of(bits(d, seed, name, "s")), "at": at}

    def rows(self, x):
        from scipy.fft import dct

        return dct(x * self.t["s"], norm="ortho", axis=-1)[:, self.t["at"]] * sqrt(x.shape[1] / self.m)


class Frequencies(Table):
    """Signs, Fourier transform, real and imaginary parts of m // 2 frequencies; 2 over the size, which is even."""

    @classmethod
    def make(cls, shape, m, seed, name):
        if m < 2:
            raise ValueError(f"m must be at least 2, got {m}")
        d = prod(shape)
        at = (bits(m // 2, seed, name, "at") % np.uint64(d)).astype(np.int64)
        return {"s": signs_of(bits(d, seed, name, "s")), "at": at}

    @property
    def size(self):
        return 2 * len(self.t["at"])

    def rows(self, x):
        z = np.fft.fft(x * self.t["s"])[:, self.t["at"]]
        return np.concatenate([z.real, z.imag], axis=1) * sqrt(2 / self.size)


class CirculantTrueClaim(Table):
    """Shifts of one normal vector of max(m, D) numbers, columns with signs: shifts are correlated, at most 6 / m."""

    factor = 6.0

    @classmethod
    def make(cls, shape, m, seed, name):
        d = prod(shape)
        if m * d > MOST:
            raise ValueError(f"m must be at most {MOST // d} for shape {shape}, got {m}")
        return {"g": normal(max(m, d), seed, name, "g"), "s": signs_of(bits(d, seed, name, "s"))}

    def rows(self, x):
        g = self.t["g"]
        table = g[(np.arange(x.shape[1]) - np.arange(self.m)[:, None]) % len(g)]
        return (x * self.t["s"]) @ table.T / sqrt(self.m)


class NormalSides(Table):
    """P X Q^T with normal P and Q of sqrt(m) rows each, and apply_outer side by side; (1 + 2/k)^2 - 1."""

    @classmethod
    def make(cls, shape, m, seed, name):
        if len(shape) == 1 and m * shape[0] > MOST:
            raise ValueError(f"m must be at most {MOST // shape[0]} for shape {shape}, got {m}")
        if len(shape) == 1:
            return {"p": normal(m * shape[0], seed, name, "p").reshape(m, -1) / sqrt(m)}
        k = int(sqrt(m))
        return {
            side: normal(k * d, seed, name, side).reshape(k, d) / sqrt(k) for side, d in zip("pq", shape, strict=True)
        }

    @property
    def size(self):
        return prod(len(t) for t in self.t.values())

    def rows(self, x):
        y = self.t["p"] @ x.reshape(len(x), self.t["p"].shape[1], -1)
        return (y @ self.t["q"].T if "q" in self.t else y).reshape(len(x), self.size)

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        u, v = u @ self.t["p"].T, v @ self.t["q"].T if "q" in self.t else v
        return (u.swapaxes(-1, -2) @ v).reshape(*u.shape[:-2], self.size)

    def variance_factor(self):
        return prod(1 + 2 / len(t) for t in self.t.values()) - 1


class BlockHadamard(Table):
    """Signs, then Walsh-Hadamard in blocks of 8 (an isometry), then signed buckets: 2 / m for any isometry before."""

    @classmethod
    def make(cls, shape, m, seed, name):
        p = -(-prod(shape) // 8) * 8
        return {
            "first": signs_of(bits(prod(shape), seed, name, "first")),
            "h": (bits(p, seed, name, "h") % np.uint64(m)).astype(np.int64),
            "s": signs_of(bits(p, seed, name, "s")),
        }

    def rows(self, x):
        y = np.zeros((len(x), len(self.t["h"])))
        y[:, : x.shape[1]] = x * self.t["first"]
        y = walsh(y.reshape(-1, 8)).reshape(y.shape) / sqrt(8)
        return scatter(y, self.t["h"], self.t["s"], self.m)
