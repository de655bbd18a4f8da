"""TensorSketch of a sum of outer products, two ways to the same numbers.

    fft    per token: two CountSketches, two FFTs, a product; tokens are summed as spectra. Costs m log m a token.
    gemm   per example: delta^T a by one GEMM into a transient buffer, then one signed scatter. Costs d_out d_in.

Which is cheaper is a matter of sizes: at 128 x 128 with 81 tokens the second, at 768 x 3072 the first.
On a CPU, both have a compiled version (`compiled`), which is tested against this one.
"""

from __future__ import annotations

from math import log2, prod

import torch
from jaxtyping import Float
from torch import Tensor

from sdi.sketch.shipped.count_and_tensor import CountSketch, TensorSketch

from .workspace import Workspace

# Nanoseconds on two CPU cores, float32 (`sdi-bench kernels` prints them): per element and log2 of an FFT, per element
# scattered, per spectrum element multiplied and summed, per multiply-add of a GEMM.
FFT_NS, SCATTER_NS, PRODUCT_NS, MADD_NS = 0.08, 0.9, 0.5, 0.015

GEMM_BYTES = 1 << 20  # gradients made and scattered at a time


class TorchCountSketch:
    """The tables of a CountSketch on a device."""

    def __init__(self, sketch: CountSketch, device: torch.device, dtype: torch.dtype) -> None:
        self.m = sketch.m
        self.h = torch.tensor(sketch.h, device=device)
        self.s = torch.tensor(sketch.s, device=device, dtype=dtype)

    def add(self, acc: Float[Tensor, "n m"], x: Float[Tensor, "n d"]) -> None:
        acc.index_add_(1, self.h, x.to(acc.dtype) * self.s)


class TorchTensorSketch:
    """The tables of a TensorSketch on a device, and the two routes."""

    sums_first = True  # where steps are summed, it pays to sum small gradients before they are scattered

    def __init__(self, sketch: TensorSketch, device: torch.device, dtype: torch.dtype) -> None:
        self.m, self.shape, self.dtype = sketch.m, sketch.shape, dtype
        self.complex = torch.complex128 if dtype == torch.float64 else torch.complex64
        self.rows = TorchCountSketch(sketch.rows, device, dtype)
        self.cols = TorchCountSketch(sketch.cols, device, dtype)
        self.sides = torch.cat([self.rows.h, self.cols.h + self.m])  # rows into the first m buckets, columns behind
        self._signed: Tensor | None = None
        self._routes: dict[int, str] = {}

    @property
    def signed_buckets(self) -> Tensor:
        """The bucket of every entry, flattened; m more where its sign is -1. Made when the gemm route first needs it.

        Scattering into 2 m buckets and taking the second half from the first is cheaper than signing the entries.
        """
        if self._signed is None:
            bucket = (self.rows.h[:, None] + self.cols.h[None, :]) % self.m
            negative = self.rows.s[:, None] * self.cols.s[None, :] < 0
            self._signed = (bucket + self.m * negative).flatten()
        return self._signed

    def route(self, tokens: int) -> str:
        """The cheaper route for an example with this many tokens."""
        if tokens not in self._routes:
            self._routes[tokens] = "fft" if self.fft_ns(tokens) < self.gemm_ns(tokens) else "gemm"
        return self._routes[tokens]

    def fft_ns(self, tokens: int) -> float:
        """The estimated time of the fft route for an example with this many tokens, in nanoseconds."""
        each = 2 * FFT_NS * self.m * log2(max(self.m, 2)) + SCATTER_NS * sum(self.shape) + PRODUCT_NS * self.m
        return tokens * each

    def gemm_ns(self, tokens: int) -> float:
        return prod(self.shape) * (MADD_NS * tokens + SCATTER_NS)

    def add_outer(
        self, acc: Float[Tensor, "n m"], u: Float[Tensor, "n T d_out"], v: Float[Tensor, "n T d_in"], work: Workspace
    ) -> None:
        """acc += sketch of the sum over tokens of outer(u, v), for each example."""
        if not u.shape[1]:
            return
        if self.route(u.shape[1]) == "gemm":
            self.add_by_gemm(acc, u, v, work)
        else:
            self.add_by_fft(acc, u, v, work)

    def add_by_gemm(self, acc: Tensor, u: Tensor, v: Tensor, work: Workspace) -> None:
        d_out, d_in = self.shape
        chunk = max(1, min(work.max_bytes, GEMM_BYTES) // (acc.element_size() * d_out * d_in))
        for i in range(0, len(u), chunk):
            us, vs = u[i : i + chunk].to(self.dtype), v[i : i + chunk].to(self.dtype)
            G = torch.bmm(us.transpose(1, 2), vs, out=work.take("G", (len(us), d_out, d_in), self.dtype))
            self.add_matrix(acc[i : i + chunk], G, work)

    def add_by_fft(self, acc: Tensor, u: Tensor, v: Tensor, work: Workspace) -> None:
        n, tokens, _ = u.shape
        total = work.take("total", (n, self.m // 2 + 1), self.complex)
        row_bytes = 4 * acc.element_size() * self.m  # two sketches, two spectra
        rows = max(1, work.max_bytes // row_bytes)
        examples, length = max(1, rows // tokens), min(rows, tokens)
        for i in range(0, n, examples):
            for j in range(0, tokens, length):
                part = (slice(i, i + examples), slice(j, j + length))
                product = self._spectrum(u[part], v[part], work)
                if j == 0:
                    torch.sum(product, dim=1, out=total[i : i + examples])
                else:
                    total[i : i + examples] += product.sum(dim=1)
        acc += torch.fft.irfft(total, n=self.m)

    def _spectrum(self, u: Float[Tensor, "k T d_out"], v: Float[Tensor, "k T d_in"], work: Workspace) -> Tensor:
        """The spectrum of each token's outer product, (k, T, m // 2 + 1): both sides side by side until they meet.

        Signed here and not before the loop over parts: what is read again soon is still in cache.
        """
        k, tokens, d_out = u.shape
        signed = work.take("signed sides", (k, tokens, sum(self.shape)), self.dtype)
        torch.mul(u, self.rows.s, out=signed[..., :d_out])
        torch.mul(v, self.cols.s, out=signed[..., d_out:])
        sketched = work.take("sketched", (k * tokens, 2 * self.m), self.dtype).zero_()
        sketched.index_add_(1, self.sides, signed.view(k * tokens, -1))
        spectra = torch.fft.rfft(
            sketched.view(k, tokens, 2, self.m), out=work.take("spectra", (k, tokens, 2, self.m // 2 + 1), self.complex)
        )
        return torch.mul(
            spectra[:, :, 0], spectra[:, :, 1], out=work.take("product", (k, tokens, self.m // 2 + 1), self.complex)
        )

    def add_matrix(self, acc: Float[Tensor, "n m"], G: Float[Tensor, "n d_out d_in"], work: Workspace) -> None:
        """acc += sketch of a gradient that exists already."""
        both = work.take("signed", (len(G), 2 * self.m), self.dtype).zero_()
        both.index_add_(1, self.signed_buckets, G.to(self.dtype).reshape(len(G), -1))
        acc += both[:, : self.m]
        acc -= both[:, self.m :]

    def add_rows(self, acc: Float[Tensor, "n m"], index: Tensor, v: Float[Tensor, "n T d_in"], work: Workspace) -> None:
        """acc += sketch of the sum over tokens of outer(one_hot(index), v): an embedding's gradient.

        A row's sketch is the sketch of v, turned by the row's bucket.
        """
        n, tokens, d = v.shape
        chunk = max(1, work.max_bytes // (acc.element_size() * d * tokens * 3))
        for i in range(0, n, chunk):
            at, x = index[i : i + chunk], v[i : i + chunk]
            signed = x.to(self.dtype) * self.cols.s * self.rows.s[at][..., None]
            bucket = (self.rows.h[at][..., None] + self.cols.h) % self.m  # (k, T, d)
            acc[i : i + chunk].scatter_add_(1, bucket.flatten(1), signed.flatten(1))
