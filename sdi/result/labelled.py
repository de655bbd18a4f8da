"""Labelled: an array whose axes have names and whose rows have ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdi.errors import nearest, nearest_or_first


@dataclass(frozen=True, eq=False)
class Labelled:
    """An array with a name for each axis and a label for each index.

    values: the array. dims: the names of its axes, such as ("train", "query", "step").
    coords: for each axis, the labels of its indices: ids, or step numbers from 1.

    >>> a = Labelled(np.eye(2), ("train", "query"), {"train": ("a", "b"), "query": ("x", "y")})
    >>> a.sel(train="b").values
    array([0., 1.])
    """

    values: np.ndarray
    dims: tuple[str, ...]
    coords: Mapping[str, tuple[Any, ...]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "coords", {d: tuple(self.coords[d]) for d in self.dims})
        lengths = tuple(len(self.coords[d]) for d in self.dims)
        if self.values.shape != lengths:
            raise ValueError(f"values must have shape {lengths} for dims {self.dims}, got {self.values.shape}")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{d}: {n}" for d, n in zip(self.dims, self.shape, strict=True))
        return f"Labelled({sizes})\n{self.values!r}"

    def sel(self, **labels: Any) -> Labelled:
        """The sub-array at these labels: `sel(train="a", step=3)` drops the axes "train" and "step".

        labels: a label for each axis to drop; labels are compared as text.
        """
        index: list[Any] = [slice(None)] * len(self.dims)
        for dim, label in labels.items():
            self._check_dim(dim)
            index[self.dims.index(dim)] = self.position(dim, label)
        dims = tuple(d for d in self.dims if d not in labels)
        return Labelled(self.values[tuple(index)], dims, {d: self.coords[d] for d in dims})

    def sum(self, dim: str) -> Labelled:
        """The sum over one axis. dim: its name."""
        self._check_dim(dim)
        dims = tuple(d for d in self.dims if d != dim)
        return Labelled(self.values.sum(axis=self.dims.index(dim)), dims, {d: self.coords[d] for d in dims})

    def position(self, dim: str, label: Any) -> int:
        """The index of a label on an axis. dim: the axis's name. label: compared as text."""
        places = [str(c) for c in self.coords[dim]]
        if str(label) not in places:
            raise ValueError(f"no {dim} {label!r} among {len(places)}{nearest_or_first(str(label), places)}")
        return places.index(str(label))

    def _check_dim(self, dim: str) -> None:
        if dim not in self.dims:
            raise ValueError(f"no dimension {dim!r} in {self.dims}{nearest(dim, self.dims)}")

    def to_xarray(self) -> Any:
        """As an xarray.DataArray (needs xarray)."""
        try:
            import xarray
        except ImportError:
            raise ImportError("to_xarray needs xarray: pip install 'sdi-influence[labels]'") from None
        return xarray.DataArray(self.values, dims=self.dims, coords={d: list(self.coords[d]) for d in self.dims})

    def to_pandas(self) -> Any:
        """As a pandas.Series with one level of index per axis (needs pandas)."""
        try:
            import pandas
        except ImportError:
            raise ImportError("to_pandas needs pandas: pip install 'sdi-influence[labels]'") from None
        index = pandas.MultiIndex.from_product([self.coords[d] for d in self.dims], names=self.dims)
        return pandas.Series(self.values.reshape(-1), index=index)
