"""Random features φ(x), (m,), with φ(x)·φ(x') → Θ(x, x') as m grows: random networks, and sketches of Jacobians.

Signs, biases and the input's embedding are drawn once from a seed, by NumPy in the order of the operations, so that
they are the same in every process; shapes depend only on the program and the width, never on the inputs.

Features of a network of m channels: f(p), (m,), at every position has mean_j f_j(p) f'_j(p') → K(p, p'): windows are
sums with random signs, pools means. No pair of inputs or of positions is ever formed. Up to the first pool the diagonal
K(p, p) is known exactly, and features are scaled to it.

Weights are fast transforms: y = (A ⊗ B) D x with random signs D and cosine transforms A, B replaces a dense matrix. It
is orthogonal, so that |y| = |x|; each entry of y is a sum of all entries of x with random signs, nearly Gaussian; it
takes 2(a + b) operations per entry instead of 2ab. Sources: Le, Sarlos & Smola 2013 (Fastfood); Yu et al. 2016
(structured orthogonal random features).

For an affine map with input h(p) and output derivative δ(p), the Jacobian in the weights is G = Σ_p h(p) ⊗ δ(p), and
in the bias Σ_p δ(p); ⟨G, G'⟩ = Σ_pp' K(p, p') D(p, p') is the map's part of Θ. Two things make it cheap. Of the C × C
weights only those within blocks of `_BLOCK` channels are used, times C / _BLOCK: each block is an independent estimate
of K·D, so that accuracy hardly suffers, with C · _BLOCK products per position instead of C². And the entries are added
into `count` features with random signs, which preserves inner products in expectation, with a relative standard
deviation of 1/√count (Charikar, Chen & Farach-Colton 2002). The output is the sum of all channels with random signs.
Source: arXiv 2106.07880 for features of the NTK by its recursion; here derivatives come from one backward pass.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial, reduce
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.fft
from jax import lax

from equitangents import precision
from equitangents._types import ArrayLike
from equitangents.errors import InvalidTypeError, NetworkError
from equitangents.kernels import duals
from equitangents.kernels.engines.reference.execute import deviation, field_moments, joined
from equitangents.kernels.engines.reference.windows import pad_grid
from equitangents.kernels.operations import (
    Affine,
    Box,
    Decouple,
    Dual,
    DualActivation,
    Flattening,
    IndexTable,
    Pool,
    Standardise,
    WindowPool,
)
from equitangents.kernels.orbit import OrbitAverage, as_array
from equitangents.kernels.program import Op, ParallelBranches, Positions, Program, flat, why_structured
from equitangents.kernels.result import KernelFunction, Kernels, NngpKernels, check_result
from equitangents.kernels.structured import StructuredPositions
from equitangents.memory import check_fits
from equitangents.structured import Inputs, is_structured
from equitangents.validation import check_array, check_choice, check_whole

Kind = Literal["ntk", "nngp"]
_GRAIN = 64  # networks have a multiple of so many channels, so that their weights are products of two small matrices
_BATCH_BYTES = 1 << 20  # of the channels of all positions of a batch: what caches hold
_MOST = 32  # inputs of a batch
_HELD = 10  # arrays of that size at the peak of a pass
_BLOCK = 64  # channels whose weights count with each other
# Most features of the NTK for each channel of the network whose Jacobian they sketch, and its fewest channels.
_SHARE, _LEAST = 32, 128
VERSION = 4  # of what a seed draws: weights that were fitted to features of another one do not fit


@dataclass(frozen=True)
class RandomFeatures:
    """Features of the kernels of `net`: `transform`, and `kernel` and `kernel_diagonal` from them.

    net: a network, or an orbit average of one. features: their number m. seed: of all random draws. version: of the
    draws, recorded in saved models.
    """

    net: Any
    features: int = 8192
    seed: int = 0
    version: int = field(default_factory=lambda: VERSION, init=False, repr=False)  # an attribute: saved

    def transform(self, x: ArrayLike, kernel: Kind = "ntk") -> ArrayLike:
        """φ(x), (N, features), for x (N, *positions, C): φ(x)·φ(x') ≈ Θ(x, x'), or K(x, x') for "nngp".

        In the precision of x; an input's features do not depend on the other inputs. Time and memory are linear in N.
        Raises NetworkError if the network has no such features, MemoryLimitError if they cannot fit in memory.
        """
        check_choice("kernel", kernel, ("ntk", "nngp"))
        if kernel == "ntk" and (reason := self._no_ntk(x)) is not None:
            raise NetworkError(reason)
        return self._of(x, kernel)

    def kernel(self, x1: ArrayLike, x2: ArrayLike | None = None) -> Kernels:
        """NNGP and NTK from the features of x1 and x2 (None: x1 with itself), each (N1, N2), positive semi-definite."""
        x1, x2 = as_array("x1", x1), as_array("x2", x2)
        dtype = precision.working_dtype(x1, x2)
        n1, n2 = len(x1), len(x1 if x2 is None else x2)
        check_result(x1, x2, dtype, 2 * (n1 + n2) * self.features * dtype.itemsize)
        with precision.scope(dtype):
            return self._found(x1, lambda kind: self._product(x1, x2, kind))

    def kernel_diagonal(self, x: ArrayLike) -> Kernels:
        """NNGP and NTK of each input with itself, (N,): the squared norms of the features."""
        return self._found(x, lambda kind: (self._of(x, kind) ** 2).sum(axis=1))

    def _found(self, x: ArrayLike, of: Callable[[Kind], ArrayLike]) -> Any:
        note = f"products of {self.features} random features of seed {self.seed}"
        facts: dict[str, Any] = {"engine": "random-features", "form": "features", "notes": (note,)}
        reason = self._no_ntk(x)
        nngp = of("nngp")
        return Kernels(nngp, of("ntk"), **facts) if reason is None else NngpKernels(nngp, reason, **facts)

    def _product(self, x1: ArrayLike, x2: ArrayLike | None, kind: Kind) -> ArrayLike:
        one = self._of(x1, kind)
        other = one if x2 is None else self._of(x2, kind)
        return one @ other.T if isinstance(one, np.ndarray) else jnp.matmul(one, other.T, precision="highest")

    def _no_ntk(self, x: ArrayLike) -> str | None:
        _, program = _lowered(self.net.base if isinstance(self.net, OrbitAverage) else self.net, x)
        reasons = (getattr(op.nonlinearity, "no_ntk", None) for op in flat(program.ops))
        return next(filter(None, reasons), None)

    def _of(self, x: ArrayLike, kind: Kind) -> ArrayLike:
        """Features of one kernel, (N, features)."""
        x = _checked(x)
        if not isinstance(self.net, OrbitAverage):
            return self._of_network(self.net, x, kind)
        action, group = self.net.action, self.net.action.group
        moved = (x if g == group.identity else action(g, x) for g in range(group.order))
        return reduce(operator.add, (self._of_network(self.net.base, one, kind) for one in moved)) / group.order

    def _of_network(self, net: Any, x: ArrayLike, kind: Kind) -> ArrayLike:
        inputs, program = _lowered(net, x)
        dtype = precision.working_dtype(x)
        channels = inputs.shape[-1]
        positions = _most_positions(program)
        width = _width(self.features, kind, positions)
        most = positions * width * dtype.itemsize
        batch = max(1, min(_MOST, 2 ** int(np.log2(max(1, _BATCH_BYTES // most)))))
        held = _HELD + (2 * sum(1 for _ in flat(program.ops)) if kind == "ntk" else 0)
        check_fits(
            f"{self.features} random features of {len(x)} inputs",
            len(x) * self.features * dtype.itemsize + held * batch * most,
            "transform fewer inputs at a time, or take fewer features",
        )
        shared = _read_positions(program), *_draws(program, channels, width, self.seed, kind)
        with precision.scope(dtype):
            rows = inputs.reshape((len(x), -1, channels))
            if precision.is_traced(x):
                return _features(program, self.features, rows.astype(dtype), *shared)
            found = np.empty((len(x), self.features), dtype)
            # batches have one size, so that the features of an input do not depend on the others
            for begin in range(0, len(x), batch):
                part = np.asarray(rows[begin : begin + batch], dtype)
                padded = np.zeros((batch, *part.shape[1:]), dtype)
                padded[: len(part)] = part
                made = _features(program, self.features, padded, *shared)
                found[begin : begin + batch] = np.asarray(made)[: len(part)]
            return jnp.asarray(found) if isinstance(x, jax.Array) else found


def random_features(net: KernelFunction, features: int = 8192, seed: int = 0) -> RandomFeatures:
    """Features φ(x), (N, features), with φ(x)·φ(x') → Θ(x, x') and error ~ 1/√features: linear in N.

    ```python
    cheap = et.kernels.random_features(net, features=4096)
    model = et.InfiniteEnsemble(cheap, ridge=1e-3).fit(x, y)      # no N × N matrix
    model.approximation_                                          # how far predictions are from the exact ones
    ```
    net: a network without masks, graphs, rotations or steerable features, or `orbit_average` of one. The features are
    those of random networks whose weights are signs and cosine transforms: for the NNGP the outputs of `features`
    channels, for the NTK sketches of the Jacobian of a network of as many (with positions a thirty-second, at least
    128). Kernels from them are positive semi-definite, and consistent: the bias of their mean is about one over the
    channels.
    seed: an integer; results are equal in every process.
    Raises InvalidTypeError if `net` is no network, InvalidArgumentError for less than one feature.
    Source: arXiv 2106.07880 for features of the NTK by its recursion.

    >>> import numpy as np, equitangents as et
    >>> net = et.nn.Sequential(et.nn.Dense(8), et.nn.Relu(), et.nn.Dense(1))
    >>> et.kernels.random_features(net, 256).transform(np.ones((3, 5))).shape
    (3, 256)
    """
    base = net.base if isinstance(net, OrbitAverage) else net
    if not hasattr(base, "lowered"):
        raise InvalidTypeError("net", net, "a network of equitangents.nn, or an orbit average of one")
    check_whole("features", features, 1)
    check_whole("seed", seed, 0)
    return RandomFeatures(net, int(features), int(seed))


def _width(features: int, kind: Kind, positions: int) -> int:
    """Channels of the random network, such that errors of both kernels fall as 1/√features.

    A channel of a field with many positions costs more than a feature; a channel of a vector does not. A network of
    very few channels is a poor estimate, which more features do not improve.
    """
    share = 1 if kind == "nngp" else min(_SHARE, positions)
    return _GRAIN * -(-max(features // share, min(features, _LEAST)) // _GRAIN)


def _checked(x: Inputs) -> ArrayLike:
    if is_structured(x):
        remedy = "the network's own kernel takes masks and graphs"
        raise NetworkError("x", type(x), "an array", remedy, verb="is of type")
    return check_array("x", x, min_rank=2)


def _lowered(net: Any, x: Inputs) -> tuple[ArrayLike, Program]:
    """(x after the layers without weights, the program of the other layers)."""
    inputs, program = net.lowered(_checked(x))
    remedy = "use the network's own kernel, or solver='nystrom' for many inputs"
    if isinstance(program.space, StructuredPositions):
        raise NetworkError(f"random features do not cover this network, as {why_structured(program.ops)}; {remedy}")
    if not isinstance(program.space, Positions):
        count = net.lower(x.shape[1:])[0]
        raise NetworkError(
            f"layer {count}, {net.layers[count]!r}: random features do not cover rotations, steerable features and "
            f"readouts; {remedy}"
        )
    if _sums_unknown(program.ops):
        raise NetworkError(
            "random features do not cover a sum of inputs, or of flattened or concatenated features, with what has a "
            "mean over channels, as they know no mean of these: begin the network with a Dense or Conv layer, or put "
            f"one after Flatten or Concatenate; or {remedy}"
        )
    return inputs, program


@lru_cache(maxsize=64)
def _sums_unknown(ops: tuple[Op, ...]) -> bool:
    """Whether a sum of branches multiplies a mean that the features do not have by another mean."""
    with jax.ensure_compile_time_eval():
        return _means(ops, _UNKNOWN) is None


_UNKNOWN = frozenset({"unknown"})  # the mean of inputs, and of channels that got random signs


def _means(ops: tuple[Op, ...], of: frozenset[str]) -> frozenset[str] | None:
    """Which means over channels there are after `ops`, "known" or "unknown"; None if one unknown meets another."""
    for op in ops:
        if isinstance(op, ParallelBranches):
            branches = [_means(branch, of) for branch in op.branches]
            known = [branch for branch in branches if branch is not None]
            meet = sum(map(bool, known)) > 1 and any(branch & _UNKNOWN for branch in known)
            if len(known) < len(branches) or (op.shares is None and meet):
                return None
            of = frozenset().union(*known) if op.shares is None or not any(known) else _UNKNOWN
        elif isinstance(op, Dual):
            of = frozenset({"known"} if np.any(op.activation.moments(np.ones(1))[1]) else ())
        elif op.is_diagonal:
            of = _UNKNOWN if of else of
        elif not (op.is_pool or isinstance(op, Decouple)):
            of = frozenset()
    return of


def _read_positions(program: Program) -> np.ndarray:
    """(T, positions): where an input's positions are read from, over the passes whose features are averaged.

    A folded program represents one grid for every element of the group that fixes the origin (a rotation, say). Its
    kernel is the mean of the grid's kernel between x and all rotated x'; the grid's kernel is invariant, so that
    features of the mean are means of features.
    """
    count = int(np.prod(program.shape))
    if program.lift is None or program.lift.folded == 1:
        return np.arange(count)[None]
    points = program.lift.points.array
    return np.asarray(points[points[:, 0] == 0])


@partial(jax.jit, static_argnums=(0, 1))
def _features(
    program: Program,
    count: int,
    x: jax.Array,
    turns: jax.Array,
    embedding: jax.Array,
    drawn: list[Any],
    signs: tuple[ArrayLike, list[ArrayLike]] | None,
) -> jax.Array:
    """(B, count): the outputs of the network, or with signs the sketch of its Jacobian."""
    found = jnp.zeros((len(x), count), x.dtype)
    for positions in turns:
        begin = start(x if len(turns) == 1 else x[:, positions], embedding)
        if signs is None:
            found = found + run(program.ops, begin, drawn).f[:, 0, :count] / count**0.5
        else:
            found = found + sketch(program, begin, drawn, signs, count)
    return found / len(turns)


def _most_positions(program: Program) -> int:
    """The largest number of positions between two operations."""
    begin = int(np.prod(program.shape))
    return max([begin, *(op.positions_after(begin) for op in flat(program.ops) if op.is_window)])


Function = Callable[[jax.Array, jax.Array], jax.Array]  # (values, their variance) to values


def _normalised_exponential(dual: duals.NormalisedExponentialDual) -> Function:
    def value(u: jax.Array, q: jax.Array) -> jax.Array:
        s = jnp.sqrt(jnp.where(q > 0, q, 1))
        return jnp.where(q > 0, s * jnp.exp(math.sqrt(dual.gamma) * u / s - dual.gamma), 0)

    return value


_MADE: dict[type, Callable[[Any], Function]] = {
    duals.PiecewiseLinearDual: lambda dual: lambda u, q: jnp.where(u > 0, u, dual.slope * u),
    duals.ErfDual: lambda dual: lambda u, q: jax.lax.erf(u),
    duals.GeluDual: lambda dual: lambda u, q: jax.nn.gelu(u, approximate=False),
    duals.SinDual: lambda dual: lambda u, q: jnp.sin(u),
    duals.CosDual: lambda dual: lambda u, q: jnp.cos(u),
    duals.WaveDual: lambda dual: lambda u, q: jnp.sin(u + dual.phase),
    duals.GaborDual: lambda dual: lambda u, q: jnp.exp(-u * u) * jnp.sin(u),
    duals.ExpDual: lambda dual: lambda u, q: dual.a * jnp.exp(dual.b * u),
    duals.GaussianDual: lambda dual: lambda u, q: dual.a * jnp.exp(dual.b * u * u),
    duals.RbfDual: lambda dual: lambda u, q: math.sqrt(2) * jnp.sin(math.sqrt(2 * dual.gamma) * u + math.pi / 4),
    duals.NormalisedExponentialDual: _normalised_exponential,
    duals.Normalised: lambda dual: lambda u, q: u / jnp.sqrt(q + dual.eps),
    duals.PolynomialDual: lambda dual: lambda u, q: jnp.polyval(jnp.asarray(dual.coefficients[::-1], u.dtype), u),
    duals.RectifiedMonomialDual: lambda dual: lambda u, q: jnp.maximum(u, 0) ** dual.degree,
    duals.Quadrature: lambda dual: lambda u, q: dual.function(u),
    duals.SignDual: lambda dual: lambda u, q: jnp.sign(u),
    duals.HeavisideDual: lambda dual: lambda u, q: jnp.where(u > 0, 1.0, 0.0).astype(u.dtype),
    duals.Shifted: lambda dual: lambda u, q: function_of(dual.of)(u, q) + dual.offset,
}


def function_of(dual: DualActivation) -> Function:
    """φ as an elementwise function of values and their variance; NetworkError if only its moments are known."""
    make = _MADE.get(type(dual))
    if make is None:
        raise NetworkError(
            f"random features need the function of a nonlinearity, and of {dual!r} only moments are known; use "
            "nn.Elementwise(function), or kernel(x1, x2) for the exact kernel"
        )
    return make(dual)


_KNOWN = (Pool, WindowPool, Dual, Standardise)


@lru_cache(maxsize=4)
def _draws(program: Program, channels: int, width: int, seed: int, kind: Kind) -> tuple[Any, ...]:
    """(the input's embedding (channels, width), the draws of each operation of a network of `width` channels, signs).

    Signs are those of the outputs and of the derivatives of each affine map, `_BLOCK` + 1 per channel; None for
    the NNGP.
    """
    rng, signs = np.random.default_rng(seed), None
    embedding = _embedding(rng, channels, width)
    drawn, _ = _of_ops(program.ops, int(np.prod(program.shape)), width, rng)
    if kind == "ntk":
        more = np.random.default_rng([seed, 1])
        affine = sum(isinstance(op, Affine) for op in flat(program.ops))
        signs = _signs(more, width), [_signs(more, width * (_BLOCK + 1)) for _ in range(affine)]
    return embedding, drawn, signs


def _embedding(rng: np.random.Generator, channels: int, width: int) -> np.ndarray:
    """E with E Eᵀ/width = 1/channels, exactly if possible, else on average: f = x E has the input's covariance."""
    embedding = rng.standard_normal((width, channels))
    if channels <= width:
        embedding = np.linalg.qr(embedding)[0] * np.sqrt(width)
    return np.ascontiguousarray(embedding.T) / np.sqrt(channels)


def _signs(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return (2 * rng.integers(0, 2, shape, dtype=np.int8) - 1).astype(np.int8)


def _of_ops(ops: tuple[Op, ...], positions: int, width: int, rng: np.random.Generator) -> tuple[list[Any], int]:
    """(draws of each operation, number of output positions)."""
    found: list[Any] = []
    for op in ops:
        drawn: Any = None
        if isinstance(op, Affine):
            drawn = {"signs": _signs(rng, width), "bias": rng.standard_normal(width)}
        elif isinstance(op, Box):
            # signs of rows times signs of columns are still uncorrelated, and windows go one dimension at a time
            drawn = [_signs(rng, w, width) for w in op.window]
        elif isinstance(op, IndexTable):
            drawn = _signs(rng, op.span, width)
        elif isinstance(op, Flattening | Decouple):
            drawn = _signs(rng, positions, width)
        elif op.held:
            each = [_of_ops(branch, positions, width, rng) for branch in op.held]
            drawn, positions = [made for made, _ in each], each[-1][1]
            if isinstance(op, ParallelBranches) and op.shares is not None:
                drawn = {"branches": drawn, "signs": [_signs(rng, width) for _ in op.branches]}
        elif not isinstance(op, _KNOWN):
            raise NetworkError(f"random features do not know the operation {type(op).__name__}; use the exact kernel")
        positions = op.positions_after(positions)
        found.append(drawn)
    return found, positions


@lru_cache
def factors(width: int) -> tuple[int, int]:
    """Two factors of `width`, as close to each other as possible."""
    small = next(d for d in range(math.isqrt(width), 0, -1) if width % d == 0)
    return small, width // small


@lru_cache(maxsize=16)
def cosines(size: int) -> np.ndarray:
    """The orthogonal matrix of the discrete cosine transform."""
    return np.asarray(scipy.fft.dct(np.eye(size), axis=0, norm="ortho"))


def mix(x: jax.Array, signs: ArrayLike) -> jax.Array:
    """(A ⊗ B) D x along the last axis."""
    a, b = factors(x.shape[-1])
    y = (x * signs.astype(x.dtype)).reshape((-1, a, b))
    one, other = (jnp.asarray(cosines(n), x.dtype) for n in (a, b))
    y = jnp.matmul(y.reshape((-1, b)), other, precision="highest").reshape(y.shape)
    y = jnp.einsum("nab,ac->ncb", y, one, precision="highest")
    return y.reshape(x.shape)


def box_sum(x: jax.Array, op: Box, signs: Sequence[ArrayLike] | None = None) -> jax.Array:
    """Σ_u d_u x(s·p + u) / √|S| of x (B, P, m), with signs d_u per channel; without signs the mean over the window."""
    batch, width = x.shape[0], x.shape[-1]
    y: Any = pad_grid(x.reshape((batch, *op.in_shape, width)), op, tuple((i + 1,) for i in range(len(op.in_shape))))
    for axis, (n, w, s) in enumerate(zip(op.out_shape, op.window, op.stride, strict=True), start=1):
        pieces = (lax.slice_in_dim(y, u, u + (n - 1) * s + 1, s, axis) for u in range(w))
        if signs is None:
            y = sum(pieces) / w
        else:
            y = sum(piece * d.astype(x.dtype) for piece, d in zip(pieces, signs[axis - 1], strict=True)) / math.sqrt(w)
    return y.reshape((batch, -1, width))


def table_sum(x: jax.Array, op: IndexTable, signs: ArrayLike) -> jax.Array:
    """Σ_s √weights[s] d_s x(index[:, s])."""
    roots = jnp.asarray(np.sqrt(op.weights.array), x.dtype)
    index = jnp.asarray(op.index.array.T)

    def add(total: jax.Array, part: tuple[jax.Array, jax.Array, ArrayLike]) -> tuple[jax.Array, None]:
        rows, root, d = part
        return total + root * d.astype(x.dtype) * x[:, rows], None

    first = jnp.zeros((x.shape[0], op.index.array.shape[0], x.shape[-1]), x.dtype)
    return lax.scan(add, first, (index, roots, signs))[0]


def block_means(x: jax.Array, labels: np.ndarray, blocks: int) -> jax.Array:
    """Means over the positions of each block, of x (B, P, m); those with label -1 are dropped."""
    kept = np.flatnonzero(labels >= 0)
    order = kept[np.argsort(labels[kept], kind="stable")]
    counts = np.bincount(labels[kept], minlength=blocks)
    if (counts == counts[0]).all():
        y = x if len(kept) == x.shape[1] and (order == kept).all() else x[:, order]
        return y.reshape((x.shape[0], blocks, counts[0], x.shape[-1])).mean(axis=2)
    weights = (labels[None, :] == np.arange(blocks)[:, None]) / counts[:, None]
    return jnp.einsum("kp,bpm->bkm", jnp.asarray(weights, x.dtype), x, precision="highest")


class Field(NamedTuple):
    """Features f, (B, P, m), and the exact K(p, p) and E f(p), each (B, P)."""

    f: jax.Array
    q: jax.Array
    mean: jax.Array


Shift = Callable[[jax.Array], jax.Array]  # what an affine map takes -> what is added to its result


def start(x: jax.Array, embedding: ArrayLike) -> Field:
    """The field of inputs x (B, P, C)."""
    f = jnp.matmul(x, embedding.astype(x.dtype), precision="highest")
    q = jnp.mean(x * x, axis=-1)
    return Field(f, q, jnp.zeros_like(q))


def run(ops: tuple[Op, ...], field: Field, drawn: list[Any], shift: Shift = jnp.zeros_like) -> Field:
    """The field after `ops`; every affine map calls `shift`, in the order of `flat`."""
    for op, own in zip(ops, drawn, strict=True):
        if isinstance(op, Affine):
            field = _affine(op, field, own, shift)
        elif isinstance(op, ParallelBranches):
            field = _parallel(op, field, own, shift)
        elif op.is_diagonal:
            field = _flatten(field, own)
        elif op.is_pool:
            field = _pooled(op, field)
        else:
            field = _moments_after(op, field)._replace(f=_FEATURES[type(op)](op, field, own))
    return field


def _moments_after(op: Op, x: Field) -> Field:
    """The field with the variances and means after an operation that acts at each position."""
    step = field_moments((op,), x.q.T, x.mean.T, dict(op.tables))
    return Field(x.f, step.q[-1].T, step.mean[-1].T)


def _affine(op: Affine, x: Field, own: dict[str, ArrayLike], shift: Shift) -> Field:
    """K ← W²K + b²."""
    before, after = _scaled(x.f, x.q), _moments_after(op, x)
    f = op.W_var**0.5 * mix(before, own["signs"])
    if op.b_var:
        f = _scaled(f + op.b_var**0.5 * own["bias"].astype(f.dtype), after.q)
    return after._replace(f=f + shift(before))


def _scaled(f: jax.Array, q: jax.Array) -> jax.Array:
    """Features rescaled to the known mean square, by a factor without derivatives."""
    found = jnp.mean(f * f, axis=-1)
    factor = jnp.sqrt(jnp.where(found > 0, q, 0) / jnp.where(found > 0, found, 1))
    return f * lax.stop_gradient(factor)[..., None]


def _pooled(op: Any, x: Field) -> Field:
    """The field after a pool, whose diagonal is that of the features, since the exact one is unknown."""
    both = (x.f, x.mean[..., None])
    if isinstance(op, WindowPool):
        f, mean = (box_sum(v, op.box) for v in both)
    else:
        f, mean = (block_means(v, op.labels.array, op.blocks) for v in both)
    return Field(f, lax.stop_gradient(jnp.mean(f * f, axis=-1)), mean[..., 0])


def _flatten(x: Field, own: ArrayLike) -> Field:
    f = jnp.sum(x.f * own.astype(x.f.dtype), axis=1, keepdims=True) / x.f.shape[1] ** 0.5
    q = x.q.mean(axis=1, keepdims=True)
    return Field(f, q, jnp.zeros_like(q))


def _parallel(op: ParallelBranches, x: Field, own: Any, shift: Shift) -> Field:
    branches = own if op.shares is None else own["branches"]
    each = [run(branch, x, drawn, shift) for branch, drawn in zip(op.branches, branches, strict=True)]
    fs = [y.f for y in each]
    if op.shares is not None:
        fs = [w**0.5 * d.astype(f.dtype) * f for w, f, d in zip(op.shares, fs, own["signs"], strict=True)]
    return Field(sum(fs[1:], fs[0]), *joined(op.shares, [y.q for y in each], [y.mean for y in each]))


# The features after an operation that does not mix positions, from the field before and the draws.
_FEATURES: dict[type, Callable[[Any, Field, Any], jax.Array]] = {
    Box: lambda op, x, own: box_sum(x.f, op, own),
    IndexTable: lambda op, x, own: table_sum(x.f, op, own),
    Dual: lambda op, x, own: function_of(op.activation)(x.f, x.q[..., None]),
    Decouple: lambda op, x, own: x.f * own.astype(x.f.dtype),
    Standardise: lambda op, x, own: x.f / deviation(op, x.q.T).T[..., None],
}


def sketch(
    program: Program, field: Field, drawn: list[object], signs: tuple[ArrayLike, list[ArrayLike]], count: int
) -> jax.Array:
    """Features (B, count) of Θ, for the field of inputs at the program's start."""
    affine = [op for op in flat(program.ops) if isinstance(op, Affine)]
    readout, own = signs

    def output(shifts: list[jax.Array] | None) -> tuple[jax.Array, list[jax.Array]]:
        taken: list[jax.Array] = []

        def shift(h: jax.Array) -> jax.Array:
            taken.append(h)
            return jnp.zeros_like(h) if shifts is None else shifts[len(taken) - 1]

        return run(program.ops, field, drawn, shift).f[:, 0], taken

    shapes = jax.eval_shape(lambda: output(None)[1])
    f, back, taken = jax.vjp(output, [jnp.zeros(h.shape, h.dtype) for h in shapes], has_aux=True)
    (slopes,) = back(jnp.broadcast_to(readout.astype(f.dtype) / f.shape[-1] ** 0.5, f.shape))
    each = zip(affine, taken, slopes, own, strict=True)
    return sum((_added(_jacobian(*part), d, count) for *part, d in each), jnp.zeros((f.shape[0], count), f.dtype))


def _jacobian(op: Affine, h: jax.Array, slope: jax.Array) -> jax.Array:
    """(B, m · _BLOCK + m): derivatives in the weights within blocks, and in the biases."""
    weights, biases = op.rates or (op.W_var, op.b_var)
    one, other = (v.reshape((*v.shape[:2], -1, _BLOCK)) for v in (h, slope))
    by_weights = jnp.einsum("bpgi,bpgj->bgij", one, other, precision="highest") * (weights / _BLOCK) ** 0.5
    return jnp.concatenate([by_weights.reshape((len(h), -1)), biases**0.5 * slope.sum(axis=1)], axis=1)


def _added(x: jax.Array, signs: ArrayLike, count: int) -> jax.Array:
    """Values (B, n) with signs, summed cyclically into `count` entries."""
    signed = jnp.pad(x * signs.astype(x.dtype), ((0, 0), (0, -x.shape[1] % count)))
    return signed.reshape((len(x), -1, count)).sum(axis=1)
