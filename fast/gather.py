"""gathered: a whole copy of a model that `fully_shard` (FSDP2) has cut up over the ranks of a job.

A forward pass of the cut model needs all ranks in step, with as many batches each. So the ranks gather its parameters
once, all together, and each has a copy to work with by itself: a rank needs the memory of the whole model, beside its
own piece of it. The copy has the classes that the modules had before, and none of the hooks of torch.distributed; what
the hooks did besides (a `MixedPrecisionPolicy` computes in another type) is not done. The model itself stays as it is;
parameters that a forward pass left whole are cut up again.
"""

from __future__ import annotations

from collections import OrderedDict
from copy import deepcopy
from typing import Any

from torch import nn

from sdi.inputs.unwrap import is_cut, is_dtensor, plain_model

OF_FSDP = ("__composable_api_", "_is_fsdp_managed_module", "_fsdp_use_orig_params")  # attributes that it adds


def gathered(model: Any) -> Any:
    """A whole copy of a model that `fully_shard` has cut up; any other as it is. All ranks must make this call."""
    plain = plain_model(model)
    if not isinstance(plain, nn.Module):
        return model
    modules = list(plain.modules())
    cut = [module for module in modules if is_cut(module)]
    for module in cut:
        module.reshard()  # type: ignore[operator]
    split: dict[int, Any] = {
        id(p): p for module in modules for p in module._parameters.values() if p is not None and is_dtensor(p)
    }
    if not cut or any(sum(place.is_shard() for place in p.placements) > 1 for p in split.values()):
        return model  # nothing is cut, or also by tensor-parallelism, which hooks of another kind belong to
    memo: dict[int, Any] = {}
    for key, p in split.items():
        whole = p.detach().full_tensor().clone()
        memo[key] = nn.Parameter(whole, requires_grad=p.requires_grad)
    for module in modules:
        memo[id(module)] = object.__new__(_class_before(module))
    for module in modules:
        kept = {name: _without_hooks(value) for name, value in vars(module).items() if not name.startswith(OF_FSDP)}
        memo[id(module)].__dict__ = {name: deepcopy(value, memo) for name, value in kept.items()}
    return memo[id(plain)]


def _class_before(module: nn.Module) -> type:
    """The module's class before `fully_shard` put one of its own before it."""
    return type(module).__bases__[-1] if is_cut(module) else type(module)


def _without_hooks(value: Any) -> Any:
    """A dict of hooks without those of torch.distributed; any other value as it is."""
    if not isinstance(value, OrderedDict):
        return value
    return OrderedDict(
        (k, v) for k, v in value.items() if not str(getattr(v, "__module__", "")).startswith("torch.distributed.")
    )
