"""Faults of apply_outer, dense, twins, tables and listings, and the list of all faults that show in single calls."""

from __future__ import annotations

from math import prod

import numpy as np
import torch

from fourth_sceptic import confirm_calls as calls
from fourth_sceptic.confirm_calls import SHAPE, M, differs, normal, one_of, raises, relative, same_error, same_table
from sdi.sketch.shipped.count_and_tensor import CountSketch


def outer(shape, tokens, least, m=M):
    """That apply_outer is not apply of the product."""

    def check(cls):
        one, u, v = one_of(cls, shape, m), normal(3, tokens, shape[0]), normal(3, tokens, prod(shape[1:]))
        formed = (u.swapaxes(-1, -2) @ v).reshape(3, *shape)
        return differs(
            one.apply_outer(u, v), one.apply(formed), least, f"apply_outer at {shape}, {tokens} tokens, m={m}"
        )

    return check


def outer_skips_nan(cls):
    u, v = normal(3, 5, 8), normal(3, 5, 6)
    u[1, 2, 3] = np.nan
    return bool(np.isfinite(one_of(cls).apply_outer(u, v)).all()), "NaN in u, finite numbers out"


def dense_integer_root(cls):
    one, x = one_of(cls, m=7), normal(*SHAPE)
    return differs(one.dense() @ x.ravel(), one.apply(x), 0.1, "dense() at m=7")


def twin_single(cls):
    one, x = one_of(cls), normal(3, *SHAPE)
    return differs(one.to_torch("cpu", torch.float64).apply(torch.as_tensor(x)).numpy(), one.apply(x), 1e-9, "float64")


def twin_view_crash(cls):
    G = torch.as_tensor(normal(3, 6, 8)).transpose(1, 2)
    return raises(lambda: one_of(cls).to_torch("cpu", torch.float64).apply(G), "a transposed tensor")


def twin_cached_by_shape(cls):
    x, one, two = normal(3, *SHAPE), one_of(cls, name="a"), one_of(cls, name="b")
    one.to_torch("cpu", torch.float64)
    return differs(
        two.to_torch("cpu", torch.float64).apply(torch.as_tensor(x)).numpy(), two.apply(x), 0.1, "the second twin"
    )


def round_trip(m):
    """That of_tables does not give the sketch back."""

    def check(cls):
        one, x = one_of(cls, m=m), normal(*SHAPE)
        return differs(cls.of_tables(SHAPE, m, one.tables()).apply(x), one.apply(x), 0.1, f"of_tables at m={m}")

    return check


def nbytes_counts_entries(cls):
    one = one_of(cls)
    true = sum(table.nbytes for table in one.tables().values())
    return one.nbytes != true, f"nbytes {one.nbytes}, tables of {true}"


def kind_of_another(cls):
    one, shipped, x = one_of(cls, (300,)), CountSketch.draw((300,), M, seed=0, name="w"), normal(300)
    off = relative(one.apply(x), shipped.apply(x))
    return one.identity == shipped.identity and off > 0.1, f"the identity of CountSketch, but {off:.1f} off"


def listing(cls):
    """That the listed variance is not that of the draws, at e_0 + e_2 of (3,), m = 2 or m = 4."""
    wide = cls.__name__ == "ListingWithoutCollisions"
    m, x = (4 if wide else 2), np.array([1.0, 0.0, 1.0])
    told = sum(float(p) * (one.apply(x) @ one.apply(x) - 2) ** 2 for p, one in cls.enumerate_all((3,), m))
    drawn = np.array([(y @ y - 2) ** 2 for y in (one_of(cls, (3,), m, seed).apply(x) for seed in range(2000))])
    z = (drawn.mean() - told) / max(drawn.std(), 1e-9) * np.sqrt(len(drawn))
    return abs(
        drawn.mean() - told
    ) > 0.3, f"(3,) m={m}: variance listed {told:.3f}, drawn {drawn.mean():.3f}, z={z:.0f}"


LONG = "base_model.model.model.layers.0.self_attn.{}_proj.lora_A.default.weight"
EXACT = {
    "ClaimFromOwnTable": calls.claim_from_own_table,
    "SeedAsFloat32": same_table((20240104, "w"), (20240105, "w")),
    "NameAnagrams": same_table((0, "layers.12.weight"), (0, "layers.21.weight")),
    "NameCut40": same_table((0, LONG.format("q")), (0, LONG.format("v"))),
    "NameDotsDropped": same_table((0, "net.1.1.weight"), (0, "net.11.weight")),
    "NameRotatesBuckets": same_error((0, "layers.0.weight"), (0, "layers.1.weight")),
    "OddSeedsMirror": same_error((4, "w"), (5, "w")),
    "TablesSetOrder": calls.tables_set_order,
    "StaleById": calls.stale_by_id,
    "OuterAnswerIsBuffer": calls.outer_answer_is_buffer,
    "OuterScalesTable": calls.outer_scales_table,
    "InPlaceLargeBatch": calls.in_place_large_batch,
    "InPlaceAndBack": calls.in_place_and_back,
    "OuterMutatesU": calls.outer_mutates_u,
    "DropsRelativeSmall": calls.drops_relative_small,
    "HalfPrecisionForBatches": calls.half_precision_for_batches,
    "LastChunkLost": calls.last_chunk_lost,
    "CumsumBuckets": calls.cumsum_buckets,
    "FixedPointSums": calls.fixed_point_sums,
    "InfinityClipped": calls.infinity_clipped,
    "BadRowsZeroed": calls.bad_rows_zeroed,
    "RavelA": calls.ravel_a,
    "NegativeStridesCrash": calls.negative_strides_crash,
    "LeadAxesFortran": calls.lead_axes_fortran,
    "SqueezesBatchOfOne": calls.squeezes_batch_of_one,
    "OuterTokenRemainder": outer((8, 6), 300, 0.1),
    "OuterSwapsSquare": outer((12, 12), 5, 0.1),
    "OuterSkipsNan": outer_skips_nan,
    "OuterIgnoresColumn": outer((20,), 5, 0.1),
    "OuterSingle": outer((40, 30), 5, 1e-9, m=1024),
    "DenseIntegerRoot": dense_integer_root,
    "TwinSingle": twin_single,
    "TwinViewCrash": twin_view_crash,
    "TwinCachedByShape": twin_cached_by_shape,
    "TablesUint8": round_trip(2048),
    "OfTablesForgetsScale": round_trip(64),
    "NbytesCountsEntries": nbytes_counts_entries,
    "KindOfAnother": kind_of_another,
    "ListingWithoutCollisions": listing,
    "ListingIdealised": listing,
}
