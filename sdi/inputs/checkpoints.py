"""Checkpoints: weights read as tensors only, each with its eta; never a silent default.

A file is safetensors, or a torch file that holds nothing but tensors and plain containers: a state dict, or a dict with
one under "model", "state_dict" or "model_state_dict" and an optimiser's under "optimizer", "optimizer_state_dict" or
"optim".
A folder that Hugging Face's Trainer wrote is a checkpoint, too, and so is one of torch.distributed.checkpoint, which
holds such a dict (`sdi/inputs/checkpoint_formats`).

eta, the weight of a checkpoint, is the learning rate it was trained with. It comes from (the first that is there)
  1. the list given to `attribute(eta=...)`, one number per checkpoint;
  2. a sidecar: FILE with the ending .json beside the checkpoint, {"eta": 0.001} or {"eta": {"core": 0.001, ...}};
  3. the safetensors file's metadata "eta", a number or JSON as in a sidecar, or the torch file's dict, "eta";
  4. the optimiser's state in the file or folder: the "lr" of its parameter groups;
  5. of a Trainer's folder: what trainer_state.json logged at its step, or optimizer.pt, or what was logged last.
"""

from __future__ import annotations

import glob
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sdi.files import expand, sha256
from sdi.inputs.batches import natural
from sdi.inputs.checkpoint_formats.dcp_folder import (
    PIECES,
    dcp_sha256,
    is_dcp_folder,
    read_dcp,
    read_rates,
    read_values,
)
from sdi.inputs.checkpoint_formats.dcp_metadata import METADATA, Entry
from sdi.inputs.checkpoint_formats.torch_archive import load_torch
from sdi.inputs.checkpoint_formats.trainer_folder import (
    OPTIMISER,
    folder_sha256,
    folder_weights,
    is_trainer_folder,
    logged_eta,
)
from sdi.inputs.unwrap import unwrapped_names

MODEL_KEYS = ("model", "state_dict", "model_state_dict")
OPTIMISER_KEYS = ("optimizer", "optimizer_state_dict", "optimiser", "optim")

Eta = float | dict[str, float]  # one number, or one per parameter (or module) name


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint's file, its weight and its fingerprint. `weights` reads it."""

    path: Path  # a file, or a folder of a Trainer or of torch.distributed.checkpoint
    eta: Eta  # its weight in scores: the learning rate, one for all parameters or one per name
    fingerprint: str  # sha256 of the file, or of the weights in the folder with all that is in their files

    @property
    def key(self) -> str:
        """The name of its folder in a store: the file's stem and the first digits of its sha256."""
        return f"{self.path.stem}-{self.fingerprint[:8]}"

    def weights(self) -> dict[str, Any]:
        """The tensors of the model, by name."""
        return folder_weights(self.path) if is_trainer_folder(self.path) else _read(self.path)[0]()

    def load_into(self, model: Any, backend: Any) -> Any:
        """The model with these weights. model: what `backend` works on. backend: a module from `sdi.backend`.

        Refused if the file's content has changed since the checkpoint was found.
        """
        weights = self.weights()
        try:
            loaded = backend.with_weights(model, weights)
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from None
        if _fingerprint(self.path) != self.fingerprint:  # after loading: tensors are memory maps until copied
            raise ValueError(f"checkpoint {self.path} changed while the run was going; start it again")
        return loaded

    def eta_of(self, parameter: str) -> float:
        """The weight of one parameter's part of a score: eta, or that of the longest name in eta it lies under.

        parameter: a parameter's full name.
        """
        if not isinstance(self.eta, dict):
            return self.eta
        hits = [name for name in self.eta if parameter == name or parameter.startswith(name + ".")]
        if not hits:
            raise ValueError(f"eta of {self.path.name} has none for parameter {parameter!r}, only for {list(self.eta)}")
        return self.eta[max(hits, key=len)]


def find_checkpoints(
    patterns: Sequence[str | Path] | str | Path, eta: Sequence[float] | None = None
) -> list[Checkpoint]:
    """The files that the patterns name, in natural order (step-9 before step-10), each with its eta.

    patterns: one path or glob, or several; every one must name a file, and no two files may have the same content.
    eta: one weight per checkpoint; by default each file's own (see the module's text).
    Returns a list of `Checkpoint`.
    """
    patterns = [patterns] if isinstance(patterns, (str, Path)) else patterns
    if not isinstance(patterns, Iterable):
        raise TypeError(f"checkpoints must be paths or patterns, such as ['ckpt/*.safetensors'], got {patterns!r}")
    by_file: dict[Path, Path] = {}
    for pattern in patterns:
        path = str(expand(pattern))
        found = [path] if Path(path).is_file() else sorted(glob.glob(path, recursive=True), key=natural)
        found = [path] if _is_folder(Path(path)) else found
        files = [Path(p) for p in found if _is_checkpoint(Path(p))]
        if not files:
            raise ValueError(f"checkpoints: {str(pattern)!r} names no file{_instead(found)}")
        for file in files:
            before = by_file.get(file.resolve())
            if before is None or (before.is_symlink() and not file.is_symlink()):  # the file rather than a link to it
                by_file.pop(file.resolve(), None)
                by_file[file.resolve()] = file
    paths = list(by_file.values())
    if not paths:
        raise ValueError("checkpoints must name at least one file, got none")
    given: Any = eta  # a string is a Sequence to the type checker
    if given is not None and (not isinstance(given, Sequence) or isinstance(given, str) or len(given) != len(paths)):
        raise ValueError(f"eta must be a list with one weight for each of the {len(paths)} checkpoints, got {eta!r}")
    etas = [read_eta(path) for path in paths] if eta is None else list(eta)
    points = [Checkpoint(path, check_eta(e, path), _fingerprint(path)) for path, e in zip(paths, etas, strict=True)]
    known: dict[str, Path] = {}
    for point in points:
        if point.fingerprint in known:
            twin = known[point.fingerprint]
            raise ValueError(f"checkpoints {twin} and {point.path} have the same content; name one of them")
        known[point.fingerprint] = point.path
    return points


def _is_checkpoint(path: Path) -> bool:
    return _is_folder(path) or (path.is_file() and path.suffix not in (".json", PIECES))


def _is_folder(path: Path) -> bool:
    return is_trainer_folder(path) or is_dcp_folder(path)


def _fingerprint(path: Path) -> str:
    if is_trainer_folder(path):
        return folder_sha256(path)
    return dcp_sha256(path) if path.is_dir() else sha256(path)


def _instead(found: Sequence[str]) -> str:
    """A clause that says what to name instead, if a pattern matched a folder or the index of a split checkpoint."""
    for path in found:
        if Path(path).is_dir():
            return f", but a folder; name the files in it, such as {str(Path(path) / '*.safetensors')!r}"
        if path.endswith(".index.json"):
            return (
                f" that can be read: {Path(path).name} is the index of a checkpoint in several files; name the "
                "folder that holds it"
            )
        if path.endswith(PIECES):
            return (
                f" that can be read: {Path(path).name} is a part of a torch.distributed.checkpoint; name the folder "
                f"that holds it and {METADATA}"
            )
    return ""


def read_eta(path: Path) -> Any:
    """The eta of a checkpoint, unchecked: from its sidecar, metadata or optimiser; an error if none of them has it."""
    sidecar = path.with_suffix(".json")
    if sidecar.is_file():
        try:
            content = json.loads(sidecar.read_text())
        except ValueError as error:
            raise ValueError(f"sidecar {sidecar} is not JSON: {error}") from None
        if isinstance(content, dict) and "eta" in content:
            return content["eta"]
    _, extra = _read_trainer(path) if is_trainer_folder(path) else _read(path)
    if "eta" in extra:
        return extra["eta"]
    if "optimiser" in extra:
        return _optimiser_eta(extra["optimiser"], path)
    raise ValueError(
        f"no eta for checkpoint {path}: give eta=[...] with one learning rate per checkpoint, or write "
        f'{{"eta": ...}} to {sidecar.name} beside it, or save the optimiser\'s state in the checkpoint'
    )


def _read_trainer(folder: Path) -> tuple[Callable[[], dict[str, Any]], dict[str, Any]]:
    """As `_read`, of a Trainer's folder: the rate of its own step, else the optimiser's state, else the last logged."""
    logged = logged_eta(folder)
    state = folder / OPTIMISER
    if (logged is None or not logged[1]) and state.is_file():
        return partial(folder_weights, folder), {"optimiser": load_torch(state)}
    return partial(folder_weights, folder), {} if logged is None else {"eta": logged[0]}


def _optimiser_eta(state: Any, path: Path) -> Eta:
    groups = state.get("param_groups", []) if isinstance(state, Mapping) else []
    try:
        rates = [float(group["lr"]) for group in groups if "lr" in group]
    except (TypeError, ValueError, RuntimeError) as error:  # a file may hold anything
        words = f"the optimiser's state in {path} has odd learning rates ({str(error)[:80]}); give eta=[...]"
        raise ValueError(words) from None
    if len(rates) != len(groups) or not rates:
        raise ValueError(f"the optimiser's state in {path} has no learning rates; give eta=[...]")
    if len(set(rates)) == 1:
        return rates[0]
    if not all("param_names" in group for group in groups):
        raise ValueError(
            f"the optimiser in {path} has groups with different learning rates {rates} but without parameter names; "
            "make it from model.named_parameters(), or give eta as {name: rate} in a sidecar, or eta=[...]"
        )
    named = {name: rate for group, rate in zip(groups, rates, strict=True) for name in group["param_names"]}
    return dict(zip(unwrapped_names(named), named.values(), strict=True))


def shows_adam(path: Path) -> bool:
    """Whether the optimiser's state in a checkpoint holds second moments, as Adam's and AdamW's do."""
    optimiser: Any = None
    if path.is_file() or is_dcp_folder(path):
        optimiser = _read(path)[1].get("optimiser")
    elif (path / OPTIMISER).is_file():
        with suppress(ValueError):  # of a Trainer's folder, where nothing else may have to be read from it
            optimiser = load_torch(path / OPTIMISER)
    state = optimiser.get("state", {}) if isinstance(optimiser, Mapping) else {}
    rows = state.values() if isinstance(state, Mapping) else ()
    return any(isinstance(row, Mapping) and "exp_avg_sq" in row for row in rows)


def check_eta(eta: Any, path: Path) -> Eta:
    """eta as a float, or as floats by name; anything negative, not finite or not a number is refused, with the path."""
    if isinstance(eta, dict) and eta:
        return {str(name): _number(value, path) for name, value in eta.items()}
    return _number(eta, path)


def _number(value: Any, path: Path) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"eta of {path} must be a number, finite and not negative, got {value!r}")
    return number


def _read(path: Path) -> tuple[Callable[[], dict[str, Any]], dict[str, Any]]:
    """(a function that loads the model's tensors, {"eta": ..., "optimiser": ...} as far as the file has them)."""
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError, safe_open
        from safetensors.torch import load_file

        try:
            with safe_open(path, framework="pt") as file:
                extra: dict[str, Any] = dict(file.metadata() or {})
        except SafetensorError as error:
            raise ValueError(f"checkpoint {path} is not a safetensors file: {error}") from None
        if "eta" in extra:  # a text, as all metadata are
            with suppress(ValueError):
                extra["eta"] = json.loads(extra["eta"])
        return partial(load_file, path), extra
    return _read_dcp(path) if path.is_dir() else _read_torch(path)


def _read_torch(path: Path) -> tuple[Callable[[], dict[str, Any]], dict[str, Any]]:
    import torch

    tensors, extra = _parts(path, load_torch(path), lambda value: isinstance(value, torch.Tensor))
    return lambda: tensors, extra


def _read_dcp(folder: Path) -> tuple[Callable[[], dict[str, Any]], dict[str, Any]]:
    content = read_dcp(folder)
    while (
        len(content) == 1
        and isinstance(inner := next(iter(content.values())), dict)
        and not content.keys() & MODEL_KEYS
    ):
        content = inner  # a dict around all
    entries, extra = _parts(folder, content, lambda value: isinstance(value, Entry) and value.is_tensor)
    if "eta" in extra:
        extra["eta"] = read_values(extra["eta"])
    with suppress(AttributeError, TypeError, KeyError):  # an optimiser that is not like torch's says nothing
        extra["optimiser"] = read_rates(extra.pop("optimiser"))
    return lambda: {name: entry.read() for name, entry in entries.items()}, extra


def _parts(path: Path, content: Any, is_tensor: Callable[[Any], bool]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is in a checkpoint's dict: the model's tensors by name, {"eta": ..., "optimiser": ...} where it has them."""
    if not isinstance(content, Mapping):
        raise ValueError(f"checkpoint {path} must hold a state dict, got {type(content).__name__}")
    state = next((content[key] for key in MODEL_KEYS if isinstance(content.get(key), Mapping)), content)
    optimiser = next((content[key] for key in OPTIMISER_KEYS if isinstance(content.get(key), Mapping)), None)
    extra: dict[str, Any] = {} if optimiser is None else {"optimiser": optimiser}
    # Among the tensors of a state dict, a tensor of this name is a parameter.
    if "eta" in content and not (state is content and is_tensor(content["eta"])):
        extra["eta"] = content["eta"]
    tensors = {str(name): value for name, value in state.items() if is_tensor(value)}
    if not tensors:
        keys = list(content)[:10]
        raise ValueError(
            f"checkpoint {path} must hold tensors, at the top or under one of {MODEL_KEYS}, got only {keys}"
        )
    return tensors, extra
