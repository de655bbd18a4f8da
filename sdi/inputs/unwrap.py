"""unwrap: the plain model inside DistributedDataParallel, DataParallel and torch.compile, and plain parameter names.

Featurising needs no wrapper: every rank works on examples of its own, and no gradient is averaged over ranks. A wrapped
model would exchange buffers in every forward pass, and so wait for ranks that have other batches, or fewer.
A model whose parameters are cut up over the ranks (fully_shard, FullyShardedDataParallel) is refused: each forward pass
of it needs all ranks at once. `sdi.attribute` gathers what `fully_shard` has cut up before it comes here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

WRAPPERS = {  # the classes, by name, so that torch need not be imported; the attribute that holds the plain model
    "torch.nn.parallel.distributed.DistributedDataParallel": "module",
    "torch.nn.parallel.data_parallel.DataParallel": "module",
    "torch._dynamo.eval_frame.OptimizedModule": "_orig_mod",
}
SHARDED = "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel"
PREFIXES = tuple(f"{attribute}." for attribute in dict.fromkeys(WRAPPERS.values()))


def unwrapped_model(model: Any) -> Any:
    """The plain model in a wrapped one, the very same modules and parameters; any other model as it is.

    ValueError for a model that is sharded over the ranks of a torch.distributed job.
    """
    model = plain_model(model)
    _refuse_sharded(model)
    return model


def plain_model(model: Any) -> Any:
    """The model in a wrapped one, whether it is whole or cut up."""
    while (attribute := next((WRAPPERS[name] for name in _classes(model) if name in WRAPPERS), None)) is not None:
        model = getattr(model, attribute)
    return model


def unwrapped_names(names: Iterable[str]) -> list[str]:
    """Names without the prefixes of wrappers ("module.", "_orig_mod."), as far as all names share them.

    >>> unwrapped_names(["module._orig_mod.a", "module._orig_mod.b"]), unwrapped_names(["module.a", "b"])
    (['a', 'b'], ['module.a', 'b'])
    """
    bare = list(names)
    while bare and (shared := [prefix for prefix in PREFIXES if all(name.startswith(prefix) for name in bare)]):
        bare = [name.removeprefix(shared[0]) for name in bare]
    return bare


def _refuse_sharded(model: Any) -> None:
    if not hasattr(model, "named_parameters"):
        return
    cut = next((f"parameter {name!r} is a DTensor" for name, p in model.named_parameters() if is_dtensor(p)), None)
    if cut is None:
        between = (name for name, module in model.named_modules() if is_cut(module))
        cut = next((f"module {name or 'model'!r} went through fully_shard" for name in between), None)
    if cut is None:
        kinds = ((name, module) for name, module in model.named_modules() if SHARDED in _classes(module))
        cut = next((f"module {name or 'model'!r} is FullyShardedDataParallel" for name, _ in kinds), None)
    if cut is not None:
        raise ValueError(
            f"model must be whole on every rank, got one that is cut up over ranks ({cut}); give the model as it was "
            "before fully_shard, FullyShardedDataParallel or parallelize_module: checkpoints=... fills in the weights, "
            "also from the folders that torch.distributed.checkpoint writes"
        )


def is_cut(module: Any) -> bool:
    """Whether `fully_shard` was called with this module."""
    return any(name.startswith("torch.distributed.") and name.endswith(".FSDPModule") for name in _classes(module))


def is_dtensor(p: Any) -> bool:
    """Whether a parameter is cut up over the ranks of a torch.distributed job."""
    return any(name.startswith("torch.distributed.") and name.endswith(".DTensor") for name in _classes(p))


def _classes(value: Any) -> list[str]:
    return [f"{kind.__module__}.{kind.__qualname__}" for kind in type(value).__mro__]
