"""Random features φ(x), (m,), with φ(x)·φ(x') → Θ(x, x') as m grows: for more inputs than pairs can be computed of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError
from equitangents.kernels.fields.size import check_result
from equitangents.kernels.orbit import OrbitAverage
from equitangents.kernels.program import Dual, Op, Positions, Program, flat
from equitangents.kernels.random_features.draws import draws
from equitangents.kernels.random_features.forward import run, start
from equitangents.kernels.result import KernelFunction, Kernels, NngpKernels
from equitangents.memory import check_fits
from equitangents.structured import Inputs, is_structured
from equitangents.validation import check_array, check_whole

Kind = Literal["ntk", "nngp"]
_GRAIN = 64  # networks have a multiple of so many channels, so that their weights are products of two small matrices
_BATCH_BYTES = 32 << 20  # of the features of all positions of a batch
_MOST = 32  # inputs of a batch
_HELD = 10  # arrays of that size at the peak of a pass


@runtime_checkable
class FeatureMap(Protocol):
    """A kernel that is the product of features: what is trained on it can be solved in the space of features."""

    features: int

    def transform(self, x: ArrayLike, kernel: Kind = "ntk") -> ArrayLike:
        """Features (N, features), whose products are the kernel."""

    def kernel(self, x1: ArrayLike, x2: ArrayLike | None = None) -> Kernels:
        """Products of the features."""

    @property
    def exact(self) -> KernelFunction:
        """What the features approximate."""


@dataclass(frozen=True)
class RandomFeatures:
    """Features of the kernels of `net`: `transform`, and `kernel` and `kernel_diagonal` from them.

    net: a network, or an orbit average of one. features: their number m, also the channels of the random network
    that makes them. seed: of all that is random.
    """

    net: Any
    features: int = 8192
    seed: int = 0

    @property
    def exact(self) -> KernelFunction:
        """The network, or the orbit average, whose kernel the features approximate."""
        found: KernelFunction = self.net
        return found

    def transform(self, x: ArrayLike, kernel: Kind = "ntk") -> ArrayLike:
        """φ(x), (N, features), for x (N, *positions, C): φ(x)·φ(x') is about Θ(x, x'), or K(x, x') for "nngp".

        In the precision of x; the same for an input whatever else is in x. Time and memory are linear in N.
        Raises NetworkError where the network has no such features, MemoryLimitError where they cannot fit in memory.
        """
        if kernel not in ("ntk", "nngp"):
            raise InvalidArgumentError(f"kernel is {kernel!r}; expected 'ntk' or 'nngp'")
        if kernel == "ntk" and (reason := self._no_ntk(x)) is not None:
            raise NetworkError(reason)
        return self._both(x)[kernel == "ntk"]

    def kernel(self, x1: ArrayLike, x2: ArrayLike | None = None) -> Kernels:
        """NNGP and NTK from the features of x1 and x2 (None: x1 with itself), each (N1, N2), positive semi-definite."""
        dtype = precision.working_dtype(*(x for x in (x1, x2) if x is not None))
        n1, n2 = len(x1), len(x1 if x2 is None else x2)
        check_result(x1, x2, dtype, 2 * (n1 + n2) * self.features * dtype.itemsize)
        with precision.scope(dtype):
            one = self._both(x1)
            other = one if x2 is None else self._both(x2)
            nngp, ntk = (_product(a, b) for a, b in zip(one, other, strict=True))
        return self._found(x1, nngp, ntk)

    def kernel_diagonal(self, x: ArrayLike) -> Kernels:
        """NNGP and NTK of each input with itself, (N,): the squared norms of the features."""
        nngp, ntk = ((f * f).sum(axis=1) for f in self._both(x))
        return self._found(x, nngp, ntk)

    def _found(self, x: ArrayLike, nngp: ArrayLike, ntk: ArrayLike) -> Any:
        kernels = Kernels(nngp, ntk, engine="random-features", form="features", notes=(self._note,))
        reason = self._no_ntk(x)
        return kernels if reason is None else NngpKernels.of(kernels, reason)

    @property
    def _note(self) -> str:
        return f"products of {self.features} random features of seed {self.seed}"

    def _base(self) -> Any:
        return self.net.base if isinstance(self.net, OrbitAverage) else self.net

    def _no_ntk(self, x: ArrayLike) -> str | None:
        _, program = _lowered(self._base(), x)
        return next((found for op in flat(program.ops) if (found := _without_slope(op)) is not None), None)

    def _both(self, x: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """Features of K and of Θ, both (N, features)."""
        x = _checked(x)
        if not isinstance(self.net, OrbitAverage):
            return self._of_network(self.net, x)
        action = self.net.action
        nngp, ntk = self._of_network(self.net.base, x)
        for g in range(action.group.order):
            if g != action.group.identity:
                other = self._of_network(self.net.base, action(g, x))
                nngp, ntk = nngp + other[0], ntk + other[1]
        return nngp / action.group.order, ntk / action.group.order

    def _of_network(self, net: Any, x: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        given, program = _lowered(net, x)
        dtype = precision.working_dtype(x)
        channels = given.shape[-1]
        width = _GRAIN * -(-self.features // _GRAIN)
        most = _most_positions(program) * width * dtype.itemsize
        batch = max(1, min(_MOST, 2 ** int(np.log2(max(1, _BATCH_BYTES // most)))))
        check_fits(
            f"{self.features} random features of {len(x)} inputs",
            2 * len(x) * self.features * dtype.itemsize + _HELD * batch * most,
            "transform fewer inputs at a time, or take fewer features",
        )
        turns = _turns(program)
        embedding, drawn = _draws(program, channels, width, self.seed)
        with precision.scope(dtype):
            rows = given.reshape((len(x), -1, channels))
            if precision.is_traced(x):
                return _features(program, self.features, rows.astype(dtype), turns, embedding, drawn)
            found = [np.empty((len(x), self.features), dtype) for _ in range(2)]
            # batches are always of one size: what is computed of an input does not depend on those beside it
            for begin in range(0, len(x), batch):
                part = np.asarray(rows[begin : begin + batch], dtype)
                whole = np.zeros((batch, *part.shape[1:]), dtype)
                whole[: len(part)] = part
                made = _features(program, self.features, whole, turns, embedding, drawn)
                for out, values in zip(found, made, strict=True):
                    out[begin : begin + batch] = np.asarray(values)[: len(part)]
            if isinstance(x, jax.Array):
                return jnp.asarray(found[0]), jnp.asarray(found[1])
            return found[0], found[1]


def random_features(net: KernelFunction, features: int = 8192, seed: int = 0) -> RandomFeatures:
    """Features φ(x), (N, features), with φ(x)·φ(x') → Θ(x, x') and error ~ 1/√features: linear in N.

    ```python
    cheap = et.kernels.random_features(net, features=4096)
    model = et.InfiniteEnsemble(cheap, ridge=1e-3).fit(x, y)      # no N × N matrix
    model.approximation_                                          # how far predictions are from the exact ones
    ```
    net: a network without masks, graphs, rotations or steerable features, or `orbit_average` of one. The features are
    those of one random network of `features` channels whose weights are signs and cosine transforms; kernels from
    them are positive semi-definite, and consistent: their mean is off by about 1/features. seed: a whole number; the
    same in every process.
    Raises InvalidTypeError for what is no network, InvalidArgumentError for less than one feature.
    Source: arXiv 2106.07880 for features of the NTK by its recursion.

    >>> import numpy as np, equitangents as et
    >>> net = et.nn.Sequential(et.nn.Dense(8), et.nn.Relu(), et.nn.Dense(1))
    >>> et.kernels.random_features(net, 256).transform(np.ones((3, 5))).shape
    (3, 256)
    """
    base = net.base if isinstance(net, OrbitAverage) else net
    if not hasattr(base, "lowered"):
        raise InvalidTypeError(f"net is {net!r}; expected a network of equitangents.nn, or an orbit average of one")
    check_whole("features", features, 1)
    check_whole("seed", seed, 0)
    return RandomFeatures(net, int(features), int(seed))


def _product(a: ArrayLike, b: ArrayLike) -> ArrayLike:
    if isinstance(a, np.ndarray):
        return a @ b.T
    return jnp.matmul(a, b.T, precision="highest")


def _checked(x: Inputs) -> ArrayLike:
    if is_structured(x):
        raise NetworkError("random features do not take masks or graphs; use the network's own kernel")
    return check_array("x", x, min_rank=2)


def _lowered(net: Any, x: Inputs) -> tuple[ArrayLike, Program]:
    """(x after the layers without weights, the program of the rest)."""
    given, program = net.lowered(_checked(x))
    if not isinstance(program.space, Positions):
        count = net.lower(x.shape[1:])[0]
        raise NetworkError(
            f"layer {count}, {net.layers[count]!r}: random features do not cover rotations, steerable features and "
            "readouts; use the network's own kernel, or solver='nystrom' for many inputs"
        )
    return given, program


@lru_cache(maxsize=4)
def _draws(program: Program, channels: int, width: int, seed: int) -> tuple[np.ndarray, list[Any]]:
    return draws(program, channels, width, seed)


def _turns(program: Program) -> np.ndarray:
    """(T, positions): where an input's positions are read from, over the passes whose features are averaged.

    A folded program stands for one grid for every element of the group that keeps the origin (a rotation, say). Its
    kernel is the mean of the grid's between x and all such x', turned; the grid's kernel is invariant, so that features
    of the mean are means of features.
    """
    count = int(np.prod(program.shape))
    if program.lift is None or program.lift.folded == 1:
        return np.arange(count)[None]
    points = program.lift.points.array
    return np.asarray(points[points[:, 0] == 0])


@partial(jax.jit, static_argnums=(0, 1))
def _features(
    program: Program, count: int, x: jax.Array, turns: jax.Array, embedding: jax.Array, drawn: list[Any]
) -> tuple[Any, Any]:
    nngp: jax.Array | float = 0.0
    ntk: jax.Array | float = 0.0
    for positions in turns:
        field = run(program.ops, start(x if len(turns) == 1 else x[:, positions], embedding), drawn)
        nngp, ntk = nngp + field.f[:, 0, :count], ntk + field.t[:, 0, :count]
    scale = len(turns) * count**0.5
    return nngp / scale, ntk / scale


def _without_slope(op: Op) -> str | None:
    return getattr(op.activation, "no_ntk", None) if isinstance(op, Dual) else None


def _most_positions(program: Program) -> int:
    """The largest number of positions between two operations."""
    begin = int(np.prod(program.shape))
    return max([begin, *(op.positions_after(begin) for op in flat(program.ops) if op.is_window)])
