"""Random features φ(x), (m,), with φ(x)·φ(x') → Θ(x, x') as m grows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike
from equitangents.errors import InvalidTypeError, NetworkError
from equitangents.kernels.operations import Decouple, Dual
from equitangents.kernels.orbit import OrbitAverage, as_array
from equitangents.kernels.program import Op, Parallel, Positions, Program, flat, why_structured
from equitangents.kernels.random_features.network import BLOCK, draws, run, sketch, sketch_draws, start
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
# Most features of the NTK for each channel of the network whose Jacobian they sketch, and its fewest channels.
_SHARE, _LEAST = 32, 128
VERSION = 4  # of what a seed draws: weights that were fitted to features of another one do not fit


@dataclass(frozen=True)
class RandomFeatures:
    """Features of the kernels of `net`: `transform`, and `kernel` and `kernel_diagonal` from them.

    net: a network, or an orbit average of one. features: their number m. seed: of all that is random. version: of what
    a seed draws, in saved models.
    """

    net: Any
    features: int = 8192
    seed: int = 0
    version: int = field(default_factory=lambda: VERSION, init=False, repr=False)  # an attribute: saved

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
        said: dict[str, Any] = {"engine": "random-features", "form": "features", "notes": (note,)}
        reason = self._no_ntk(x)
        nngp = of("nngp")
        return Kernels(nngp, of("ntk"), **said) if reason is None else NngpKernels(nngp, reason, **said)

    def _product(self, x1: ArrayLike, x2: ArrayLike | None, kind: Kind) -> ArrayLike:
        one = self._of(x1, kind)
        other = one if x2 is None else self._of(x2, kind)
        return one @ other.T if isinstance(one, np.ndarray) else jnp.matmul(one, other.T, precision="highest")

    def _base(self) -> Any:
        return self.net.base if isinstance(self.net, OrbitAverage) else self.net

    def _no_ntk(self, x: ArrayLike) -> str | None:
        _, program = _lowered(self._base(), x)
        duals = (op.nonlinearity for op in flat(program.ops))
        return next((why for phi in duals if (why := getattr(phi, "no_ntk", None)) is not None), None)

    def _of(self, x: ArrayLike, kind: Kind) -> ArrayLike:
        """Features of one kernel, (N, features)."""
        x = _checked(x)
        if not isinstance(self.net, OrbitAverage):
            return self._of_network(self.net, x, kind)
        action = self.net.action
        found = self._of_network(self.net.base, x, kind)
        for g in range(action.group.order):
            if g != action.group.identity:
                found = found + self._of_network(self.net.base, action(g, x), kind)
        return found / action.group.order

    def _of_network(self, net: Any, x: ArrayLike, kind: Kind) -> ArrayLike:
        given, program = _lowered(net, x)
        dtype = precision.working_dtype(x)
        channels = given.shape[-1]
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
        turns = _turns(program)
        drawn = _draws(program, channels, width, self.seed, kind)
        with precision.scope(dtype):
            rows = given.reshape((len(x), -1, channels))
            if precision.is_traced(x):
                return _features(program, self.features, rows.astype(dtype), turns, *drawn)
            found = np.empty((len(x), self.features), dtype)
            # batches are always of one size: what is computed of an input does not depend on those beside it
            for begin in range(0, len(x), batch):
                part = np.asarray(rows[begin : begin + batch], dtype)
                whole = np.zeros((batch, *part.shape[1:]), dtype)
                whole[: len(part)] = part
                made = _features(program, self.features, whole, turns, *drawn)
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
    those of random networks whose weights are signs and cosine transforms: of the NNGP the outputs of `features`
    channels, of the NTK sketches of the Jacobian of a network of as many (of a thirty-second where it has positions,
    at least 128). Kernels from them are positive semi-definite, and consistent: their mean is off by about one over
    the channels.
    seed: a whole number; the same in every process.
    Raises InvalidTypeError for what is no network, InvalidArgumentError for less than one feature.
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
    """Channels of the random network: errors of both kernels fall as one over the root of the number of features.

    A channel of a field of many positions costs more than a feature, and of a vector it does not. A network of very few
    channels is a poor estimate, of which many features are no better.
    """
    share = 1 if kind == "nngp" else min(_SHARE, positions)
    return _GRAIN * -(-max(features // share, min(features, _LEAST)) // _GRAIN)


def _checked(x: Inputs) -> ArrayLike:
    if is_structured(x):
        raise NetworkError("random features do not take masks or graphs; use the network's own kernel")
    return check_array("x", x, min_rank=2)


def _lowered(net: Any, x: Inputs) -> tuple[ArrayLike, Program]:
    """(x after the layers without weights, the program of the rest)."""
    given, program = net.lowered(_checked(x))
    remedy = "use the network's own kernel, or solver='nystrom' for many inputs"
    if isinstance(program.space, StructuredPositions):
        raise NetworkError(f"random features do not cover this network, as {why_structured(program.ops)}; {remedy}")
    if not isinstance(program.space, Positions):
        count = net.lower(x.shape[1:])[0]
        raise NetworkError(
            f"layer {count}, {net.layers[count]!r}: random features do not cover rotations, steerable features and "
            f"readouts; {remedy}"
        )
    if _sums_inputs(program.ops):
        raise NetworkError(
            "random features do not cover a sum of the inputs themselves with what has a mean over channels, as they "
            f"know no mean of inputs: begin the network with a Dense or Conv layer; or {remedy}"
        )
    return given, program


@lru_cache(maxsize=64)
def _sums_inputs(ops: tuple[Op, ...]) -> bool:
    """Whether the inputs, whose mean over channels features do not have, meet a mean in a sum of branches."""
    with jax.ensure_compile_time_eval():
        return _means(ops, frozenset({"inputs"})) is None


def _means(ops: tuple[Op, ...], of: frozenset[str]) -> frozenset[str] | None:
    """What has a mean over channels after `ops`, inputs or a nonlinearity; None where inputs meet another in a sum."""
    for op in ops:
        if isinstance(op, Parallel):
            branches = [_means(branch, of) for branch in op.branches]
            known = [branch for branch in branches if branch is not None]
            meet = sum(map(bool, known)) > 1 and any("inputs" in branch for branch in known)
            if len(known) < len(branches) or (op.shares is None and meet):
                return None
            of = frozenset().union(*known)
        elif isinstance(op, Dual):
            of = frozenset({"nonlinearity"} if np.any(op.activation.moments(np.ones(1))[1]) else ())
        elif op.is_diagonal or not (op.is_pool or isinstance(op, Decouple)):
            of = frozenset()
    return of


@lru_cache(maxsize=4)
def _draws(program: Program, channels: int, width: int, seed: int, kind: Kind) -> tuple[Any, ...]:
    """(the embedding, what operations need, the sketch's signs or None)."""
    signs = sketch_draws(program, width, BLOCK, seed) if kind == "ntk" else None
    return *draws(program, channels, width, seed), signs


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
    program: Program,
    count: int,
    x: jax.Array,
    turns: jax.Array,
    embedding: jax.Array,
    drawn: list[Any],
    signs: tuple[ArrayLike, list[ArrayLike]] | None,
) -> jax.Array:
    """(B, count): the outputs of the network, or where there are signs the sketch of its Jacobian."""
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
