"""Config: what a TOML file says about a run, checked, with every default filled in.

Relative paths are relative to the file. A run writes its own config, resolved, to its folder (`run.toml`), with the
version and commit that made it: running that file again does the same, and finds everything done.
"""

from __future__ import annotations

import glob
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from sdi.errors import nearest
from sdi.files import expand, refuse_url, write_whole
from sdi.inputs.checkpoints import Checkpoint, find_checkpoints
from sdi.inputs.settings import NAMES as SETTINGS
from sdi.inputs.settings import Settings
from sdi.loop import CALLS, Calls, Loop
from sdi.seal import HOLE, is_whole, sealed
from sdi.version import __version__

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

RUN_FILE = "run.toml"
MADE_BY = "made_by"  # a table for the reader, of which only the seal counts when the file is read
MAKERS = ("sdi", "commit", "sha256")
WHOLE = "none"  # TOML has no null: m = "none" keeps gradients whole


@dataclass(frozen=True)
class Config:
    """One run. Paths are absolute; the names and meanings are those of `sdi.attribute`."""

    script: Path  # defines model(), loss(model, batch), train(), query()
    checkpoints: tuple[str, ...]  # globs
    body: tuple[str, ...]
    step: str | tuple[str, ...]
    store: Path  # the run's folder; runs/NAME beside NAME.toml unless given
    result: Path  # result.safetensors in the store unless given
    end: str | None = None
    calls: Calls = "one"
    cycle: str | None = None
    inner: int | None = None
    eta: tuple[float, ...] | None = None
    settings: Settings = field(
        default_factory=Settings
    )  # keys of their own in the file; the path of a sketch's file is absolute here

    @property
    def loop(self) -> Loop:
        return Loop(self.body, self.step, self.end, self.calls, self.cycle, self.inner)

    def points(self) -> list[Checkpoint]:
        return find_checkpoints(self.checkpoints, self.eta)


OWN = tuple(f.name for f in fields(Config) if f.name != "settings")
KEYS = (*OWN, *SETTINGS)
NEEDED = ("script", "checkpoints", "body", "step")
TEXTS = ("script", "end", "cycle", "store", "result")


def read_config(path: str | Path) -> Config:
    """The config in a TOML file; an unknown, missing or mistyped key is an error that names it."""
    path = expand(path)
    if not path.is_file():
        raise ValueError(f"config {path} does not exist")
    try:
        text = path.read_bytes()
        content = tomllib.loads(text.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"config {path} is not TOML: {error}") from None
    _check_seal(path, text, content.pop(MADE_BY, {}))
    for key in content:
        if key not in KEYS:
            raise ValueError(f"config {path} has an unknown key {key!r}{nearest(key, KEYS)}; it may have {_list(KEYS)}")
    missing = [key for key in NEEDED if key not in content]
    if missing:
        raise ValueError(f"config {path} lacks {_list(missing)}; it must have {_list(NEEDED)}")
    return _resolve({key: _typed(key, value, path) for key, value in content.items()}, path)


def script_of(path: str | Path) -> Path:
    """The script that a config names, or the script itself; for what needs neither loop nor checkpoints."""
    path = expand(path)
    if not path.is_file():
        raise ValueError(f"config {path} does not exist")
    if path.suffix == ".py":
        return path.resolve()
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"config {path} is not TOML: {error}") from None
    if "script" not in content:
        raise ValueError(f"config {path} lacks script")
    return (path.resolve().parent / expand(_typed("script", content["script"], path))).resolve()


def _check_seal(path: Path, text: bytes, made_by: Any) -> None:
    """Refuse a run.toml whose content does not match the sha256 in it. A config without a sha256 is not checked."""
    odd = [key for key in made_by if key not in MAKERS] if isinstance(made_by, dict) else [MADE_BY]
    if odd:
        raise ValueError(f"config {path} has an unknown key {odd[0]!r} in [{MADE_BY}]; it may have {_list(MAKERS)}")
    if "sha256" in made_by and not is_whole(text, made_by["sha256"]):
        raise ValueError(
            f"config {path} was changed after a run wrote it; if you meant to, take out its line 'sha256 = ...' under "
            f"[{MADE_BY}], and it is a config like any other"
        )


def _resolve(values: dict[str, Any], path: Path) -> Config:
    folder = path.resolve().parent
    refuse_url("store", values.get("store"))
    store = folder / expand(values.pop("store", Path("runs") / path.stem))
    script = folder / expand(values.pop("script"))
    if not script.is_file():
        raise ValueError(f"script must be a Python file, got {script}, which does not exist")
    globs = tuple(os.path.join(glob.escape(str(folder)), expand(p)) for p in values.pop("checkpoints"))
    result = folder / expand(values.pop("result")) if "result" in values else store / "result.safetensors"
    given = _begun(store) | {key: values.pop(key) for key in SETTINGS if key in values}
    if given.get("m") == WHOLE:
        given["m"] = None
    try:
        settings = Settings(**given)
    except (TypeError, ValueError) as error:
        remedy = f'; "{WHOLE}" keeps gradients whole' if str(error).startswith("m must be an integer") else ""
        raise ValueError(f"{error} in {path}{remedy}") from None
    absolute = partial(_moved, move=lambda file: str((folder / expand(file)).resolve()))
    settings = replace(settings, sketch=_each(settings.sketch, absolute))
    where: dict[str, Any] = {"script": script.resolve(), "store": store.resolve(), "result": result.resolve()}
    return Config(checkpoints=globs, settings=settings, **where, **values)


def _begun(store: Path) -> dict[str, Any]:
    """{"spread": False} if the folder's run.toml says so: a run begun without spread is continued without it."""
    with suppress(OSError, tomllib.TOMLDecodeError, UnicodeDecodeError):
        if tomllib.loads((store / RUN_FILE).read_text(encoding="utf-8")).get("spread") is False:
            return {"spread": False}
    return {}


def _typed(key: str, value: Any, path: Path) -> Any:
    """The value of one of the config's own keys as the dataclass holds it, or an error with the rule."""
    if key in SETTINGS:
        return value
    if key == "calls":
        rule, good = f"one of {CALLS}", value in CALLS
    elif key == "inner":
        rule, good = "an integer of at least 1", isinstance(value, int) and not isinstance(value, bool) and value >= 1
    elif key in TEXTS or (key == "step" and isinstance(value, str)):
        rule, good = "a text in quotes", isinstance(value, str) and value != ""
    else:
        kind: Any = (int, float) if key == "eta" else str
        value = [value] if isinstance(value, str) else value
        rule = "a list of numbers" if key == "eta" else "a list of texts"
        good = isinstance(value, list) and bool(value)
        good = good and all(isinstance(v, kind) and not isinstance(v, bool) for v in value)
        value = tuple(value) if good else value
    if not good:
        raise ValueError(f"{key} must be {rule}, got {value!r} in {path}")
    return value


def save_run(config: Config, points: Sequence[Checkpoint]) -> Path:
    """Write the replayable config to the run's folder: the checkpoints as found, each with its eta, all defaults."""
    folder = config.store
    values: dict[str, Any] = {name: getattr(config, name) for name in OWN}
    values |= vars(config.settings)
    for key in ("script", "store", "result"):
        values[key] = _relative(values[key], folder)
    values["checkpoints"] = [glob.escape(_relative(p.path.resolve(), folder)) for p in points]
    if not any(isinstance(p.eta, dict) for p in points):
        values["eta"] = [p.eta for p in points]
    values["m"] = WHOLE if config.settings.m is None else config.settings.m
    values["sketch"] = _each(config.settings.sketch, partial(_moved, move=lambda file: _relative(Path(file), folder)))
    made_by = {"sdi": __version__, "commit": commit_of(config.script.parent), "sha256": HOLE}
    lines = [f"# Run again with: sdi run {RUN_FILE}", *_toml(values), "", f"[{MADE_BY}]", *_toml(made_by)]
    write_whole(folder / RUN_FILE, sealed(("\n".join(lines) + "\n").encode()))
    return folder / RUN_FILE


def _each(sketch: Any, change: Callable[[str], str]) -> str | dict[str, str]:
    return change(sketch) if isinstance(sketch, str) else {k: change(v) for k, v in sketch.items()}


def _moved(spec: str, move: Callable[[str], str]) -> str:
    """A sketch's spec with its file's path changed, if it names a file."""
    file, colon, name = spec.rpartition(":")
    return f"{move(file)}{colon}{name}" if file.endswith(".py") else spec


def commit_of(folder: Path) -> str | None:
    """The commit that a folder is at, with a "+" if there are changes; None outside a repository."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _relative(path: Path, folder: Path) -> str:
    """The path relative to a folder, so that a project can be moved; absolute if they are on different drives."""
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:
        return str(path)


def _toml(values: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_literal(value)}" for key, value in values.items() if value is not None]


def _literal(value: Any) -> str:
    """A value as TOML: as JSON, except for tables and the character DEL.

    >>> _literal(["a", 1e-05, 3])
    '["a", 1e-05, 3]'
    """
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_literal(k)} = {_literal(v)}" for k, v in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_literal(v) for v in value) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)
