"""Operations of a plain `nn.Linear` are not looked at one by one; whatever may do more than that is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from sdi.fast.rows import plain_linear
from sdi.fast.rows.plain_linear import PlainLinear
from sdi.fast.rows.value_proof import ValueProof

N, D = 4, 4  # examples, tokens and columns are as many


class Seen(ValueProof):
    """Counts the products that it sees."""

    products = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.products += str(func).split(".")[1] in ("addmm", "mm", "bmm", "linear")
        return super().__torch_dispatch__(func, types, args, kwargs)


@contextmanager
def followed(module: nn.Module, proof: ValueProof) -> Iterator[PlainLinear]:
    """The hooks of a pass, as the tracer puts them."""
    linear = PlainLinear(proof)
    pre = module.register_forward_pre_hook(lambda m, args: linear.enter(m, args))
    post = module.register_forward_hook(lambda m, args, y: linear.leave(m, y), prepend=True, always_call=True)
    with proof.watching(), linear:
        yield linear
    pre.remove()
    post.remove()


def run(module: nn.Module, x: Tensor, act: Callable[[nn.Module, Tensor], Tensor], more: Any = None) -> Seen:
    proof = Seen({"x": x}, N, dict(module.named_parameters()))
    with more or nullcontext(), followed(module, proof):
        losses = act(module, x).flatten(1).sum(1)
    proof.apart = proof.keeps_apart(losses)
    return proof


def plainly(module: nn.Module, x: Tensor) -> Tensor:
    return module(x)


def data(*shape: int) -> Tensor:
    return torch.randn(*(shape or (N, D, D)), generator=torch.Generator().manual_seed(1))


INPUTS: dict[str, tuple[Tensor, Callable[[nn.Module, Tensor], Tensor]]] = {
    "tokens": (data(), plainly),
    "rows": (data(N, D), plainly),
    "flat tokens": (data(), lambda m, x: m(x.flatten(0, 1)).unflatten(0, (N, D))),
    "tokens first": (data(), lambda m, x: m(x.transpose(0, 1)).transpose(0, 1)),
    "streams": (data(), lambda m, x: m(torch.stack([x, 2 * x]).flatten(0, 1)).unflatten(0, (2, N)).sum(0)),
    "a part": (data(N, D, 2 * D), lambda m, x: m(x[..., D:])),
    "in half precision": (data().bfloat16(), plainly),
}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", INPUTS)
def test_what_is_known_is_the_same_and_no_product_is_seen(name: str, bias: bool, monkeypatch: Any) -> None:
    x, act = INPUTS[name]
    module = nn.Linear(D, D, bias=bias, dtype=x.dtype)
    quick = run(module, x, act)
    monkeypatch.setattr(plain_linear, "is_plain", lambda module: False)
    slow = run(module, x, act)
    assert (quick.products, slow.products) == (0, 1)
    assert (quick.apart, quick.uses, quick.dtypes) == (slow.apart, slow.uses, slow.dtypes)
    assert quick.apart


def test_autocast_gives_the_type_of_the_output() -> None:
    proof = run(nn.Linear(D, D), data(), lambda m, x: m(x).float(), torch.autocast("cpu", torch.bfloat16))
    assert proof.apart
    assert proof.products == 0
    assert torch.bfloat16 in proof.dtypes


def mixed(x: Tensor) -> Tensor:
    return x - x.detach().mean(0, keepdim=True)


class OfItsOwn(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(mixed(input))


class OfAnotherClass(Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.linear:
            args = (mixed(args[0].as_subclass(Tensor)), *args[1:])
        return super().__torch_function__(func, types, args, kwargs)


class MixingFunction(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.linear:
            args = (mixed(args[0]), *args[1:])
        return func(*args, **(kwargs or {}))


class MixingOperation(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        return mixed(out) if func is torch.ops.aten.addmm.default else out


def own_hook(before: bool) -> nn.Module:
    module = nn.Linear(D, D)
    if before:
        module.register_forward_pre_hook(lambda m, args: (mixed(args[0]),))
    else:
        module.register_forward_hook(lambda m, args, y: mixed(y))
    return module


def late_hook(before: bool, m: nn.Module, x: Tensor) -> Tensor:
    """Registered when the pass has begun, so that it stands nearer to the forward than ours."""
    if before:
        with m.register_forward_pre_hook(lambda m, args: (mixed(args[0]),)):
            return m(x)
    with m.register_forward_hook(lambda m, args, y: mixed(y), prepend=True):
        return m(x)


def written_weight(m: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        m.weight.copy_(x[0])  # of example 0
    return m(x)


def given_weight(m: nn.Module, x: Tensor) -> Tensor:
    return torch.func.functional_call(m, {"weight": x[0], "bias": x[0, 0]}, x)


def own_forward() -> nn.Module:
    module = nn.Linear(D, D)
    module.forward = lambda x: F.linear(mixed(x), module.weight)  # type: ignore[method-assign]
    return module


def own_weight(m: nn.Module, x: Tensor) -> Tensor:
    vars(m)["weight"] = x[0]  # hides the parameter
    return m(x)


def after_an_error(m: nn.Module, x: Tensor) -> Tensor:
    with suppress(RuntimeError):
        m(x[..., :1])
    return mixed(x)


FORWARD, PRODUCT = nn.Linear.forward, F.linear
MIXING: dict[str, tuple[Callable[[], nn.Module], Callable[[nn.Module, Tensor], Tensor], Callable[[], Any]]] = {
    "a subclass": (lambda: OfItsOwn(D, D), plainly, nullcontext),
    "a hook before": (lambda: own_hook(True), plainly, nullcontext),
    "a hook after": (lambda: own_hook(False), plainly, nullcontext),
    "a late hook before": (lambda: nn.Linear(D, D), lambda m, x: late_hook(True, m, x), nullcontext),
    "a late hook after": (lambda: nn.Linear(D, D), lambda m, x: late_hook(False, m, x), nullcontext),
    "a hook of all modules before": (
        lambda: nn.Linear(D, D), plainly, lambda: register_module_forward_pre_hook(lambda m, args: (mixed(args[0]),))),
    "a hook of all modules after": (
        lambda: nn.Linear(D, D), plainly, lambda: register_module_forward_hook(lambda m, args, y: mixed(y))),
    "another forward of the class": (
        lambda: nn.Linear(D, D), plainly,
        lambda: patch.object(nn.Linear, "forward", lambda self, x: FORWARD(self, mixed(x)))),
    "another forward of the module": (own_forward, plainly, nullcontext),
    "another linear": (
        lambda: nn.Linear(D, D), plainly,
        lambda: patch.object(F, "linear", lambda x, *args: PRODUCT(mixed(x), *args))),
    "a function mode": (lambda: nn.Linear(D, D), plainly, MixingFunction),
    "a tensor of another class": (
        lambda: nn.Linear(D, D), lambda m, x: m(x.as_subclass(OfAnotherClass)).as_subclass(Tensor), nullcontext),
    "weights of an example": (lambda: nn.Linear(D, D), written_weight, nullcontext),
    "given weights": (lambda: nn.Linear(D, D), given_weight, nullcontext),
    "a hidden weight": (lambda: nn.Linear(D, D), own_weight, nullcontext),
    "examples are summed over": (
        lambda: nn.Linear(D, D), lambda m, x: m(x.transpose(0, 2)).transpose(0, 2), nullcontext),
    "a mixed input": (lambda: nn.Linear(D, D), lambda m, x: m(mixed(x)), nullcontext),
    "after an error": (lambda: nn.Linear(D, D), after_an_error, nullcontext),
}  # fmt: skip


@pytest.mark.parametrize("name", MIXING)
def test_nothing_is_claimed_of_a_linear_that_mixes(name: str) -> None:
    make, act, around = MIXING[name]
    assert not run(make(), data(), act, around()).apart


def test_a_mode_of_the_user_sees_every_operation() -> None:
    def act(module: nn.Module, x: Tensor) -> Tensor:
        with MixingOperation():
            return module(x)

    assert not run(nn.Linear(D, D), data(), act).apart


@pytest.mark.parametrize("act", [lambda m, x: m(input=x), lambda m, x: torch.vmap(m)(x)], ids=["by name", "vmap"])
def test_other_ways_to_call_it_are_seen(act: Any) -> None:
    assert run(nn.Linear(D, D), data(), act).products > 0


def test_operations_are_seen_again_after_an_interrupt() -> None:
    module, x = nn.Linear(D, D), data()
    proof = Seen({"x": x}, N)
    with suppress(KeyboardInterrupt), followed(module, proof) as linear:
        linear.enter(module, (x,))  # as the last hook before a forward that is interrupted
        raise KeyboardInterrupt
    assert run(nn.Linear(D, D), x, lambda m, x: x @ m.weight).products == 1


def test_a_replayed_call_is_seen_operation_by_operation() -> None:
    module, x = nn.Linear(D, D), data()
    proof = Seen({"x": x}, N)
    with followed(module, proof):
        proof.enter_call()
        proof.leave_call([module(x)])
    assert proof.products == 1
