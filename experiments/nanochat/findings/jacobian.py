"""The step's own Jacobian: how much one loop step can enlarge a change of its state, and what it does to gradients.

J_t = d s_t / d s_(t-1), over all tokens of a sequence. Its spectral norm bounds what one step back does to a gradient
of the loss: |dL/ds_(t-1)| <= |J_t| |dL/ds_t|. So a loop whose steps contract shows influence that grows towards the
last step, whatever it has learnt. J is never written out: power iteration takes products with it and its transpose.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..corpus import Rendered
from ..corpus.token_batches import make_batch
from ..influence import loss_of
from ..model import begin, finish, step

Array = np.ndarray


def spectral_norm(f: Callable[[Tensor], Tensor], s: Tensor, iterations: int, seed: int) -> tuple[float, float]:
    """The largest singular value of f's Jacobian at `s`, and by what share the last iteration still changed it.

    The value is from below: power iteration never finds more than there is.
    """
    v = torch.randn(s.shape, generator=torch.Generator().manual_seed(seed), dtype=s.dtype)
    sigma = before = 0.0
    pulled = torch.func.vjp(f, s)[1]
    for _ in range(iterations):
        v = v / v.norm()
        with warnings.catch_warnings():  # its first use compiles parts of PyTorch in a way that PyTorch deprecates
            warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
            pushed = torch.func.jvp(f, (s,), (v,))[1].detach()
        before, sigma = sigma, float(pushed.norm())
        if sigma == 0:
            break
        v = pulled(pushed / sigma)[0].detach()
    return sigma, abs(sigma - before) / sigma if sigma else 0.0


def step_norms(
    model: Any, rows: Sequence[Rendered], tau: int, iterations: int, seed: int
) -> tuple[Float[Array, "n tau"], float]:
    """The spectral norm of each step's Jacobian for each sequence, and the largest change of a last iteration."""
    out, change = np.zeros((len(rows), tau)), 0.0
    with sdpa_kernel(SDPBackend.MATH):  # the only attention of PyTorch with derivatives in both directions
        for k, row in enumerate(rows):
            with torch.no_grad():
                e = begin(model, torch.tensor([row.tokens[:-1]]))
                s = e
            for t in range(tau):
                out[k, t], moved = spectral_norm(partial(step, model, e), s, iterations, seed)
                change = max(change, moved)
                with torch.no_grad():
                    s = step(model, e, s)
    return out, change


def gradient_norms(model: Any, rows: Sequence[Rendered], tau: int) -> Float[Array, "n tau"]:
    """|dL/ds_t| of the answer's loss after each step t of `tau`, for each sequence."""
    out = np.zeros((len(rows), tau))
    for k, row in enumerate(rows):
        batch = make_batch([row], everything=False)
        s = begin(model, batch["tokens"]).detach()
        e, states = s, []
        for _ in range(tau):
            s = step(model, e, s)
            states.append(s)
        value = loss_of(finish(model, s), batch)
        out[k] = [float(g.norm()) for g in torch.autograd.grad(value.sum(), states)]
    return out


def jacobians(model: Any, rows: Sequence[Rendered], taus: Sequence[int], iterations: int, seed: int) -> dict[str, Any]:
    """Norms of the steps and, for each horizon, the curves over steps that they predict of influence.

    `norm`: geometric means over sequences, by step. `curves`: for each horizon, `spectral`, the product of the norms of
    the steps after t; `gradient`, the mean of |dL/ds_t|. Each is up to a factor. `back`: what one step back does to the
    gradient, the geometric mean over steps and sequences.
    """
    found, change = step_norms(model, rows, max(taus), iterations, seed)
    log = np.log(np.maximum(found, 1e-30)).mean(axis=0)
    curves, back = {}, {}
    for tau in taus:
        after = np.concatenate([log[1:tau], [0.0]])
        g = gradient_norms(model, rows, tau)
        ratio = np.log(np.maximum(g[:, :-1], 1e-30)) - np.log(np.maximum(g[:, 1:], 1e-30))
        curves[str(tau)] = {
            "spectral": np.exp(after[::-1].cumsum()[::-1]).tolist(), "gradient": g.mean(axis=0).tolist(),
        }  # fmt: skip
        back[str(tau)] = float(np.exp(ratio.mean()))
    return {"norm": np.exp(log).tolist(), "changed": change, "curves": curves, "back": back}
