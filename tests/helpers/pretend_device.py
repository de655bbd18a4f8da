"""A pretend device: `torch.device("pretend")`, a device type of its own whose numbers are computed on the CPU.

PyTorch takes it for an accelerator (PrivateUse1): an operation that mixes its tensors with the CPU's is refused,
`.numpy()` is, too, backward passes run in a thread of the device, and it has a random generator of its own. Its memory
is the host's: a DLPack capsule says another device type of the same bytes, so that every operation can be handed to the
CPU's kernels. What a GPU would wait for is counted (`waits`).

`register` must be called before the first backward pass of a process: then PyTorch starts the threads of its devices.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from pathlib import Path
from shutil import which
from typing import Any

import torch
from torch import Tensor

NAME = "pretend"
CPU, EXTENSION = 1, 12  # DLPack's numbers of device types
ON_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
COPIES = {"copy_", "_copy_from"}
# The host has to know their numbers: the size of what they give depends on them.
READS = {"equal", "nonzero", "masked_select", "_unique2", "bincount", "unique_dim", "repeat_interleave"}
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

# torch.utils.backend_registration has a guard in Python, which ends the process when a hook raises in a backward pass.
GUARD = """
#include <c10/core/impl/DeviceGuardImplInterface.h>
namespace {
const auto pretend = c10::Device(c10::DeviceType::PrivateUse1, 0);
struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return pretend.type(); }
  c10::Device exchangeDevice(c10::Device) const override { return pretend; }
  c10::Device getDevice() const override { return pretend; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return c10::Stream(c10::Stream::DEFAULT, pretend); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);
}
"""

waits: Counter[str] = Counter()  # by operation: what the host has to wait for the device for
generator = torch.Generator()
forbidden: set[torch.dtype] = set()  # types of numbers that the device does not have, as MPS has no float64
_kept: list[Any] = []


class _Module:
    """What stands as `torch.pretend`."""

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return True

    def _is_in_bad_fork(self) -> bool:
        return False

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return 1

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]

    def manual_seed_all(self, seed: int) -> None:
        generator.manual_seed(seed)

    def get_rng_state(self, device: Any = None) -> Tensor:
        return generator.get_state()

    def set_rng_state(self, state: Tensor, device: Any = None) -> None:
        generator.set_state(state)

    def synchronize(self, device: Any = None) -> None:
        pass


class _Hooks(torch._C._acc.PrivateUse1Hooks):
    def is_available(self) -> bool:
        return True

    def is_built(self) -> bool:
        return True

    def has_primary_context(self, number: int) -> bool:
        return True


def register(folder: Path) -> torch.device:
    """Make the device known to PyTorch, once in a process, and return it. folder: where its guard is compiled to."""
    guard = folder / "guard.so"
    if not guard.exists():
        torch_folder = Path(torch.__file__).parent
        command = [which("g++") or "c++", "-std=c++20", "-O0", "-shared", "-fPIC", "-x", "c++", "-"]
        command += [f"-I{torch_folder / 'include'}", f"-L{torch_folder / 'lib'}", "-lc10", "-o", str(guard)]
        subprocess.run(command, input=GUARD, text=True, check=True)
    torch.utils.rename_privateuse1_backend(NAME)
    torch.utils.generate_methods_for_privateuse1_backend()
    torch._register_device_module(NAME, _Module())
    torch._C._acc.register_python_privateuseone_hook(_Hooks())
    library = torch.library.Library("_", "IMPL", "PrivateUse1")
    library.fallback(_run)
    convolutions = torch.library.Library("aten", "IMPL")
    convolutions.impl("convolution_overrideable", _convolution, "PrivateUse1")
    convolutions.impl("convolution_backward_overrideable", _convolution_backward, "PrivateUse1")
    _kept.extend([ctypes.CDLL(str(guard)), library, convolutions])
    return torch.device(NAME)


@cache
def _kind(operation: Any) -> tuple[str, bool, bool, list[str]]:
    """Of an operation: its name, whether it gives a view, whether it draws random numbers, its arguments' types."""
    schema = operation._schema
    is_view = any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
    draws = torch.Tag.nondeterministic_seeded in operation.tags
    return schema.name.removeprefix("aten::"), is_view, draws, [str(a.type) for a in schema.arguments]


def _run(operation: Any, *args: Any, **kwargs: Any) -> Any:
    """Every operation on the device: refused where devices are mixed, else computed by the CPU on the same memory."""
    name, is_view, draws, types = _kind(operation)
    if is_view:  # no number is read
        return operation.redispatch(ON_CPU, *args, **kwargs)
    tensors = [x for each in (*args, *kwargs.values()) for x in _each(each) if isinstance(x, Tensor)]
    _refuse_mixed(name, tensors)
    _count(name, tensors)
    if name == "resize_":
        return _set(args[0], torch.empty(args[1], dtype=args[0].dtype))
    host = {id(x): _on_host(x) for x in tensors}
    if name == "_copy_from":  # from, to
        host[id(args[1])].copy_(host[id(args[0])])
        return args[1]
    there = [_map(partial(_hosted, host), x) for x in args]
    there = [_number(x, type_, there) for x, type_ in zip(there, types, strict=False)]
    options = {key: _map(partial(_hosted, host), x) for key, x in kwargs.items()}
    with _own_random_numbers() if draws else nullcontext():
        out = operation(*there, **options)
    for x in tensors:
        if x.shape != host[id(x)].shape:  # an empty `out=`, which has grown
            _set(x, host[id(x)])
    given = {id(host[id(x)]): x for x in tensors}
    return _map(partial(_on_device, given), out)


@contextmanager
def _own_random_numbers() -> Iterator[None]:
    """The CPU's generator stands in for the device's own: native_dropout takes no other."""
    before = torch.get_rng_state()
    torch.set_rng_state(generator.get_state())
    try:
        yield
    finally:
        generator.set_state(torch.get_rng_state())
        torch.set_rng_state(before)


def _each(x: Any) -> Sequence[Any]:
    return x if isinstance(x, (list, tuple)) else (x,)


def _map(function: Callable[[Any], Any], x: Any) -> Any:
    return type(x)(function(y) for y in x) if isinstance(x, (list, tuple)) else function(x)


def _hosted(host: Mapping[int, Tensor], x: Any) -> Any:
    return torch.device("cpu") if isinstance(x, torch.device) else host.get(id(x), x) if isinstance(x, Tensor) else x


def _convolution(*args: Any) -> Any:
    return _run(torch.ops.aten.convolution.default, *args)


def _convolution_backward(delta: Tensor, a: Tensor, weight: Tensor, *options: Any) -> Any:
    return _run(torch.ops.aten.convolution_backward.default, delta, a, weight, [delta.shape[1]], *options)


def _refuse_mixed(name: str, tensors: list[Tensor]) -> None:
    for x in tensors:
        if x.dtype in forbidden and x.device.type == NAME:
            raise TypeError(f"{name}: the pretend device has no {x.dtype}")
        if x.device.type != NAME and x.dim() and name not in COPIES:
            raise RuntimeError(
                f"expected all tensors on one device, got {NAME} and {x.device} {tuple(x.shape)} ({name})"
            )


def _count(name: str, tensors: list[Tensor]) -> None:
    if name in COPIES:
        source, target = tensors if name == "_copy_from" else tensors[::-1]
        if source.device != target.device:
            waits["to the host" if source.device.type == NAME else "to the device"] += 1
    elif name == "_local_scalar_dense":
        waits["item"] += 1
    elif name in READS or (name.startswith("index") and any(x.dtype == torch.bool for x in tensors[1:])):
        waits[name] += 1


def _as(x: Tensor, device_type: int) -> Tensor:
    """The same memory as a tensor of another device type."""
    capsule = torch._C._to_dlpack(x)
    ctypes.c_int.from_address(_pointer(capsule, b"dltensor") + ctypes.sizeof(ctypes.c_void_p)).value = device_type
    return torch._C._from_dlpack(capsule)


def _on_host(x: Tensor) -> Tensor:
    if x.device.type != NAME:
        return x
    return _as(x, CPU) if x.numel() else torch.empty_like(x, device="cpu")  # which may be made larger


def _number(x: Any, type_: str, like: Sequence[Any]) -> Any:
    """A number in the place of a tensor, which PyTorch has unpacked on the way to Python, as a tensor again.

    like: the other arguments; the number must not change the type of what the operation gives.
    """
    if not isinstance(x, (bool, int, float, complex)) or type_ != "Tensor":
        return x
    dtype = next((y.dtype for y in like if isinstance(y, Tensor)), None)
    return torch.tensor(x, dtype=None if dtype is None else torch.result_type(torch.empty(1, dtype=dtype), x))


def _set(x: Tensor, y: Tensor) -> Tensor:
    """x, with the numbers of a tensor on the host as its own."""
    new = _as(y, EXTENSION)
    set_storage = torch.ops.aten.set_.source_Storage_storage_offset
    return set_storage.redispatch(ON_CPU, x, new.untyped_storage(), 0, new.shape, new.stride())


def _on_device(given: Mapping[int, Tensor], y: Any) -> Any:
    """What an operation gave: the tensor that it was given to write to, or a new one on the device."""
    if not isinstance(y, Tensor):
        return y
    if y.dtype in forbidden:
        raise TypeError(f"the pretend device has no {y.dtype}")
    return given[id(y)] if id(y) in given else _as(y, EXTENSION)
