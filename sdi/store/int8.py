"""Features in int8: every parameter's part of every step of every example is rounded to 127ths of its largest number.

    scale = the largest |x| of the part, in float32
    stored = floor(127 x / scale + u),  u uniform from 0 to 1

so that a number is rounded up with the probability that makes it right on average. Each number's error then has a mean
of zero and a variance of at most (scale / 254)^2, whatever the numbers are, and those of different numbers are
independent: a sum of a thousand numbers far below a 127th is still right. Rounding to the nearest would make zeros of
them all.

The u are drawn from the sketch, the checkpoint, the side and the example's id, so the same example is always rounded
alike. They have 16 bits: the mean is right to scale / 127 / 2^17. The largest number is stored as 127 or -127 itself,
so the scale can be read off what was stored. Zero stays zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int8, UInt16

from sdi.sketch.hashing import bits
from sdi.sketch.sketch_map import Block

Array = np.ndarray
LARGEST = 127


def to_int8(
    values: Float[Array, "n ... D"], blocks: Sequence[Block], keys: Sequence[tuple[str, ...]]
) -> tuple[Int8[Array, "n ... D"], Float[Array, "n ... P"]]:
    """Rounded values, and the scale of each block in float32.

    blocks: the columns of each parameter. keys: words for each example, from which its rounding is drawn.
    """
    peaks = block_peaks(values, blocks)
    out = np.empty(values.shape, dtype=np.int8)
    for k, words in enumerate(keys):
        x, peak = values[k], spread_over(peaks[k], blocks)
        u = bits(-(-x.size // 4), *words).astype("<u8").view("<u2")[: x.size].reshape(x.shape)
        share = np.divide(x, peak, out=np.zeros(x.shape), where=peak > 0)
        out[k] = round_at(share, u)
    with np.errstate(over="ignore"):  # the caller refuses what does not fit
        return out, peaks.astype(np.float32)


def round_at(share: Float[Array, "..."], u: UInt16[Array, "..."]) -> Float[Array, "..."]:
    """Numbers from -1 to 1 as whole 127ths: each the one below or above, as `u`, uniform in its 16 bits, has it."""
    return np.where(np.abs(share) == 1, LARGEST * share, np.floor(LARGEST * share + (u + 0.5) * 2.0**-16))


def from_int8(
    stored: Int8[Array, "n ... D"], scales: Float[Array, "n ... P"], blocks: Sequence[Block]
) -> Float[Array, "n ... D"]:
    """What `to_int8` rounded, in float32."""
    out = stored.astype(np.float32)
    out /= LARGEST
    for p, block in enumerate(blocks):
        out[..., block.start : block.stop] *= scales[..., p, None]
    return out


def rounding_variance(values: Float[Array, "... D"], blocks: Sequence[Block]) -> Float[Array, "... P"]:
    """The most that rounding adds to the variance of each number of a parameter's part, from what was stored."""
    return np.square(block_peaks(values, blocks).astype(np.float64) / (2 * LARGEST))


def block_peaks(values: Float[Array, "... D"], blocks: Sequence[Block]) -> Float[Array, "... P"]:
    """The largest |x| of each parameter's part."""
    return np.maximum.reduceat(np.abs(values), [block.start for block in blocks], axis=-1)


def spread_over(of_blocks: Float[Array, "... P"], blocks: Sequence[Block]) -> Float[Array, "... D"]:
    """A number for each parameter, as one for each column."""
    return np.repeat(of_blocks, [block.stop - block.start for block in blocks], axis=-1)
