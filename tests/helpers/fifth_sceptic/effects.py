"""What is wrong with each broken sketch, measured: a function of the class to (shown, what was measured)."""

from math import prod

import numpy as np

rng = np.random.default_rng(5)


def unit(d, *at):
    x = np.zeros(d)
    x[list(at)] = len(at) ** -0.5
    return x


def flat(d):
    return np.full(d, d**-0.5)


def drawn(cls, shape, m, x, y, draws, name="w"):
    out = np.empty(draws)
    for k in range(draws):
        S = cls.draw(shape, m, seed=k, name=name)
        a, b = S.apply(np.array([x, y]).reshape(2, *shape))
        out[k] = a @ b
    return out, S.variance_factor()


def bias(shape, m, x, y=None, draws=1000):
    def effect(cls):
        other = x if y is None else y
        got, _ = drawn(cls, shape, m, x, other, draws)
        error, se = got.mean() - x @ other, got.std() / draws**0.5
        return abs(error) > max(0.03, 5 * se), f"bias {error:+.3f} +- {se:.3f} at {shape}, m={m}"

    return effect


def excess(shape, m, x, draws=1000):
    def effect(cls):
        got, claim = drawn(cls, shape, m, x, x, draws)
        square = (got - 1) ** 2 / claim
        ratio, se = square.mean(), square.std() / draws**0.5
        return ratio - 4 * se > 1.03, f"variance {ratio:.2f} +- {se:.2f} of the claim at {shape}, m={m}"

    return effect


def together(first, second, shape=(16, 16), m=16, draws=600, at_least=0.03):
    """The correlation of the errors of flat gradients for two (seed, name)s; k counts draws."""

    def effect(cls):
        x, errors = np.ones(shape) / prod(shape) ** 0.5, np.empty((draws, 2))
        for k in range(draws):
            for i, words in enumerate((first(k), second(k))):
                y = cls.draw(shape, m, seed=words[0], name=words[1]).apply(x)
                errors[k, i] = y @ y - 1
        r = (errors[:, 0] * errors[:, 1]).mean() / (errors**2).mean()
        return r > max(at_least, 4 / draws**0.5), f"correlation {r:.2f}, se {draws**-0.5:.2f}"

    return effect


def apart(what, shape=(8, 6), m=16):
    """The relative distance of two answers that should be equal."""

    def effect(cls):
        S = cls.draw(shape, m, seed=0, name="w")
        with np.errstate(all="ignore"):
            a, b = (np.asarray(one, dtype=float) for one in what(S))
            error = np.abs(a - b).max() / np.abs(b).max()
        return not error < 0.03, f"relative error {error:.2g} at {shape}, m={m}"

    return effect


def outer(u_shape, v_shape, change=lambda u, v: (u, v)):
    def what(S):
        u, v = change(rng.standard_normal(u_shape), rng.standard_normal(v_shape))
        G = (u.astype(float).swapaxes(-1, -2) @ v.astype(float)).reshape(-1, *S.shape)
        return S.apply_outer(u, v), S.apply(G)

    return what


def twin(G, outer_of=None):
    import torch

    def what(S):
        made = S.to_torch("cpu", torch.float64)
        if outer_of is not None:
            u, v = outer_of
            return made.apply_outer(torch.from_numpy(u), torch.from_numpy(v)), S.apply(u.swapaxes(1, 2) @ v)
        return made.apply(torch.from_numpy(G)), S.apply(G)

    return what


def buffer(S):
    import torch

    G, made = rng.standard_normal((2, 3, *S.shape)), S.to_torch("cpu", torch.float64)
    kept = made.apply(torch.from_numpy(G[0]))
    made.apply(torch.from_numpy(G[1]))
    return kept, S.apply(G[0])


def refilled(S):
    G, H = rng.standard_normal((2, *S.shape))
    x = G.copy()
    S.apply(x)
    x[:] = H
    return S.apply(x), S.apply(H.copy())


def heavy(S):
    x, y = np.full((2, *S.shape), 0.01)
    x[0, 0] = y[1, 1] = 1
    return [S.apply(x + y)], [S.apply(x) + S.apply(y)]


def half_lost(S):
    x = np.full(S.shape, 1e-11, dtype=np.float32)
    return S.apply(x) * 1e11, S.apply(x.astype(float)) * 1e11


def written(S):
    u, v = rng.standard_normal((2, 3, 8)), rng.standard_normal((2, 3, 6))
    before = u.copy()
    S.apply_outer(u, v)
    return u, before


def threshold(S):
    x = np.full(S.shape, 0.009)
    x[0, 0] = 1
    return S.apply(x), S.apply(x * (x < 0.5)) + S.apply(x * (x > 0.5))


def identical(cls):
    one, other = (cls.draw((8, 6), 16, seed=seed, name="w") for seed in (0, 1))
    x = rng.standard_normal((8, 6))
    same = one.identity == other.identity
    y, z = one.apply(x), other.apply(x)
    error = np.abs(y - z).max() / np.abs(y).max()
    return same and error > 0.03, f"seeds 0 and 1: identities equal {same}, answers {error:.2f} apart"


def claims(cls):
    found = [cls.draw((8, 6), 16, seed=seed, name="w").variance_factor() for seed in range(50)]
    return max(found) > 1.03 * min(found), f"claims from {min(found):.3f} to {max(found):.3f}"


N = rng.standard_normal
Q, K = (f"transformer.layers.0.self_attn.{side}_proj.weight" for side in "qk")
LONG = N((2, 200, 8)), N((2, 200, 6))
e, two = unit(48, 7), unit(48, 7, 30)
rank_one = np.outer(flat(16), flat(16)).ravel()
after = lambda x: lambda S: (S.apply(x(S)), S.apply(x(S).astype(float)))  # noqa: E731
EFFECTS = {
    "PowerOfTwoRows": bias((8, 6), 24, e),
    "PaddedHadamard": bias((8, 6), 16, e),
    "UniqueMask": bias((8, 6), 16, flat(48)),
    "FloorStrata": bias((10, 5), 16, unit(50, 49)),
    "KroneckerOneScale": bias((8, 6), 24, e),
    "Centred": bias((8, 6), 16, flat(48)),
    "RoundedNormals": bias((8, 6), 16, e, draws=2500),
    "DctFirstRow": bias((20,), 8, flat(20), draws=4000),
    "SmallMask": bias((8,), 16, flat(8)),
    "SymmetricSquare": bias((8, 8), 16, unit(64, 8)),
    "VectorsUnsigned": bias((48,), 16, flat(48)),
    "ByteThreshold": bias((512, 512), 16, flat(1 << 18), draws=60),
    "SignIsParity": bias((8, 6), 16, flat(48)),
    "SignBit8": bias((64, 64), 512, flat(4096), draws=100),
    "RowSigns": bias((8, 6), 16, flat(48)),
    "TiledSigns": bias((256, 256), 16, flat(1 << 16), draws=120),
    "GridWrap": bias((10, 5), 16, unit(50, 0, 49)),
    "ByteBuckets": excess((64, 32), 1024, flat(2048), draws=400),
    "TensorClaimsCount": excess((16, 16), 16, rank_one),
    "HadamardReplacement": excess((8, 6), 32, flat(48)),
    "ParitySigns": excess((8, 6), 16, flat(48), draws=3000),
    "BlocksClaimWhole": excess((8, 6), 16, unit(48, *range(6))),
    "RoundedDownClaim": excess((16, 16), 15, flat(256)),
    "SmallPrime": excess((64, 64), 64, unit(4096, 5, 1014)),
    "Circulant": excess((8, 6), 16, flat(48)),
    "Anagram": together(lambda k: (k, "layers.12.weight"), lambda k: (k, "layers.21.weight")),
    "Truncated": together(lambda k: (k, Q), lambda k: (k, K)),
    "SeedFloat32": together(lambda k: (20260000 + 2 * k, "w"), lambda k: (20260001 + 2 * k, "w"), at_least=0.3),
    "SeedPlusLayer": together(lambda k: (k, "h.1.w"), lambda k: (k + 1, "h.0.w")),
    "SeedNameText": together(lambda k: (k, "10.weight"), lambda k: (10 * k + 1, "0.weight")),
    "SignsSharedByLayers": together(lambda k: (k, "a"), lambda k: (k, "b"), m=4, draws=2500),
    "SeedRotates": together(lambda k: (0, f"{k}"), lambda k: (1, f"{k}")),
    "NameRolls": together(lambda k: (k, "a"), lambda k: (k, "b")),
    "CachesByShape": together(lambda k: (k, "a"), lambda k: (k, "b")),
    "FixedPoint": apart(lambda S: (S.apply(np.full(S.shape, 3e-7)) * 1e7, S.apply(np.full(S.shape, 3.0)))),
    "RelativeThreshold": apart(threshold),
    "ChunkTail": apart(lambda S: (S.apply(x := N((300, *S.shape))), [S.apply(one) for one in x])),
    "FortranLead": apart(lambda S: (S.apply(x := N((2, 3, *S.shape))), [S.apply(one) for one in x])),
    "CacheByAddress": apart(refilled),
    "ErrorFeedback": apart(lambda S: (S.apply(x := N(S.shape)), S.apply(x))),
    "MemoryOrder": apart(lambda S: (S.apply(x := N((4, *S.shape))[::2]), S.apply(x.copy()))),
    "HeavyHitter": apart(heavy),
    "IntegerOverflow": apart(after(lambda S: np.full(S.shape, 100, dtype=np.int8))),
    "UnsignedNegation": apart(after(lambda S: np.full(S.shape, 3, dtype=np.uint8))),
    "LossScaledHalf": apart(half_lost),
    "OuterCast": apart(outer((2, 3, 48), (2, 3, 1), lambda u, v: (u, np.ones(v.shape, dtype=np.int64))), (48,)),
    "OddFft": apart(outer((2, 3, 8), (2, 3, 6)), m=15),
    "TokensFirst": apart(outer((2, 3, 8), (2, 3, 6))),
    "TokenChunkTail": apart(outer((2, 200, 8), (2, 200, 6))),
    "VectorIgnoresWeight": apart(outer((2, 3, 48), (2, 3, 1)), (48,)),
    "WritesU": apart(written),
    "ZeroFirstPadding": apart(outer((2, 3, 8), (2, 3, 6), lambda u, v: (np.maximum(u, 0), v))),
    "TwinFloat32": apart(twin(np.full((2, 8, 6), 1e-50))),
    "TwinStrides": apart(twin(N((2, 6, 8)).swapaxes(1, 2))),
    "TwinBuffer": apart(buffer),
    "TwinVector": apart(twin(N((2, 48))), (48,)),
    "TwinSquareSwap": apart(twin(None, (N((2, 3, 8)), N((2, 3, 8)))), (8, 8)),
    "TwinLongTexts": apart(twin(None, LONG)),
    "TablesWithoutSigns": identical,
    "OwnIdentity": identical,
    "LazyTables": identical,
    "ClaimFromDraw": claims,
}
