"""as_xarray: numbers with a name for each axis and a label for each index, as an `xarray.DataArray`.

xarray is imported here, when the first array is asked for: `import sdi` and the commands do without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from xarray import DataArray


def as_xarray(
    values: np.ndarray, dims: Sequence[str], labels: Mapping[str, Sequence[Any]], name: str | None = None
) -> DataArray:
    """A DataArray that shares the numbers.

    values: the numbers. dims: the names of their axes. labels: of each axis, by its name: ids, or step numbers.
    name: of the array, which becomes the name of a column in pandas.

    >>> a = as_xarray(np.eye(2), ("train", "step"), {"train": ("a", "b"), "step": (1, 2)})
    >>> a.sel(train="b", step=slice(1, 2)).values
    array([0., 1.])
    """
    from xarray import DataArray

    return DataArray(values, dims=list(dims), coords={dim: index(labels[dim]) for dim in dims}, name=name)


def index(labels: Sequence[Any]) -> np.ndarray:
    """Labels as an array: texts as objects, since NumPy's own texts lose zero characters at the end."""
    return np.array(labels, dtype=object) if any(isinstance(x, str) for x in labels) else np.asarray(labels)
