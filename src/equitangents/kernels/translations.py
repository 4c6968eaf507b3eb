"""The mean of an MLP's kernel over all translations of its second input: every inner product from one FFT a pair.

Σ_p f(p) f'(p - t) for all t is the inverse transform of F(k) conj(F'(k)), so that |T| kernels of d-dimensional vectors
cost |T| log |T| + |T| × layers in place of |T| × (d + layers). Squared distances come from these products in float64,
of inputs from which their common mean was taken; where a distance is small against its rounding it is summed directly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import fft

from equitangents import precision
from equitangents.actions import Action
from equitangents.kernels.cost import MARGIN, KernelCost, timed
from equitangents.kernels.engines import REFERENCE, Choice, Engine, choose
from equitangents.kernels.engines.reference.tile import means
from equitangents.kernels.fields import check_result
from equitangents.kernels.plans.plan import FibrePlan, plan
from equitangents.kernels.program import Positions, Program
from equitangents.kernels.result import KernelFunction, Kernels
from equitangents.kernels.runs import scaling
from equitangents.kernels.runs.scaling import result
from equitangents.kernels.scales import law_of, with_biases
from equitangents.kernels.threads import threads
from equitangents.progress import Progress

_TILE_ELEMENTS = 1 << 18  # distances at a time
_DIRECT_NUMBERS = 1 << 21  # numbers gathered at a time where distances are summed directly
# Distances below this share of the centred variances are summed directly. Products are good to 1e-15 of those; angles,
# roots of distances, then to 1e-15 over the root of this, and so are kernels.
_NEAR = {"float32": 1e-8, "float64": 1e-3}


@dataclass(frozen=True)
class TranslationMean:
    """(1/|T|) Σ_t Θ(x, ρ(t)x') of a network that begins with a dense layer over all of its input; has `.kernel`."""

    net: Any
    torus: tuple[int, ...]

    def kernel(self, x1: Any, x2: Any = None) -> Kernels:
        """NNGP and NTK, (N1, N2), between x1, (N1, *torus, C), and the orbits of x2 (None: of x1, at half the cost)."""
        v1, program = self.net.lowered(x1)
        v2 = None if x2 is None else self.net.lowered(x2)[0]
        dtype = precision.working_dtype(x1, x2)
        steps = plan(program)
        assert steps.form == "fibre"
        engine, notes = _engine(program, steps, dtype)
        check_result(x1, x2, dtype, self._working_bytes(x1[0].size, len(x1), len(x1 if x2 is None else x2)))
        with precision.scope(dtype):
            backends = _backends(steps, self.torus, engine)
            first, second = np.asarray(v1, dtype), None if v2 is None else np.asarray(v2, dtype)
            nngp, ntk, added = scaling.all_pairs(law_of(program), backends, first, second)
        notes = (*notes, self._method, *added)
        return result((x1, x2), nngp, ntk, engine=engine.name, form="fibre", notes=notes)

    def kernel_cost(
        self, input_shape: tuple[int, ...], n1: int, n2: int | None = None, dtype: npt.DTypeLike = "float32"
    ) -> KernelCost:
        """Cost of `kernel`, with the time of a few tiles and the products of transforms."""
        cost: KernelCost = self.net.kernel_cost(input_shape, n1, n2, dtype)
        count = math.prod(self.torus)
        channels = math.prod(input_shape) // count
        seconds, spread = _pair_seconds(self, input_shape, cost.dtype)
        return replace(
            cost,
            fibres=count,
            element_layers=cost.element_layers * count,
            multiply_adds=cost.pairs * count * (2 * channels + math.ceil(2.5 * math.log2(2 * count))),
            seconds=seconds * cost.pairs,
            uncertainty=MARGIN * spread,
            working_bytes=self._working_bytes(math.prod(input_shape), n1, n2 or n1),
            notes=(*cost.notes, self._method),
        )

    def _working_bytes(self, numbers: int, n1: int, n2: int) -> int:
        """Bytes held beyond the results, for inputs of so many numbers: a tile, and inputs in float64."""
        count, side = math.prod(self.torus), _tile_side(self.torus)
        return count * side * (6 * side + 4 * (numbers // count)) * 8 + max(n1, n2) * numbers * 8

    @property
    def _method(self) -> str:
        return f"inner products with all {math.prod(self.torus):,} translations by FFT"


@lru_cache(maxsize=64)
def _pair_seconds(mean: TranslationMean, shape: tuple[int, ...], dtype: str) -> tuple[float, float]:
    """(seconds for one pair of inputs, the factor between the median and the fastest run)."""
    x = np.random.default_rng(0).standard_normal((min(_tile_side(mean.torus), 64), *shape)).astype(dtype)
    seconds, spread = timed(lambda: mean.kernel(x, x + 1))
    return seconds / len(x) ** 2, spread


def translation_mean(net: KernelFunction, action: Action, x: Any) -> TranslationMean | None:
    """`net` averaged over the translations in `action`, or None where FFTs cannot do that.

    They can if the action holds all translations of the torus on which the inputs live, and the network is an MLP of
    all their values, or of a function of each value.
    """
    shape = tuple(x.shape[1:])
    if action.torus is None or shape[:-1] != action.torus or not hasattr(net, "lowered") or precision.is_traced(x):
        return None
    program = net.lowered(x[:1])[1]
    mlp = program.space == Positions(()) and plan(program).form == "fibre"
    if not mlp or not choose(program, None, precision.working_dtype(x)).engine.takes_distances:
        return None
    leads = getattr(net, "leads_by_position", None)
    return TranslationMean(net, action.torus) if leads is not None and leads(shape) else None


def _engine(program: Program, steps: FibrePlan, dtype: np.dtype) -> Choice:
    """What runs the layers after the products."""
    chosen = choose(program, None, dtype)
    if why := chosen.engine.distances_obstacle(steps):
        return Choice(REFERENCE, (f"{REFERENCE.name} engine in place of {chosen.engine.name}: {why}",))
    return chosen


def _backends(steps: FibrePlan, torus: tuple[int, ...], engine: Engine) -> scaling.Backends:
    """How the means come about for inputs near in norm, and far."""
    return scaling.Backends(
        engine=partial(_means, steps, torus, engine),
        any_norms=lambda v1, v2, factor: _means(with_biases(steps, factor), torus, None, v1, v2),
        by_reference=True,
    )


def _means(
    steps: FibrePlan, torus: tuple[int, ...], engine: Engine | None, v1: np.ndarray, v2: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """By an engine from distances, or (None) by the reference engine from products."""
    side, dtype = _tile_side(torus), v1.dtype
    average = partial(means, products=True) if engine is None else engine.means_of_distances
    pairs = _covariances if engine is None else _distances
    centre = np.zeros(1) if engine is None else _centre(torus, v1, v2)
    inputs1 = _Inputs(torus, v1, centre, side)
    inputs2 = inputs1 if v2 is None else _Inputs(torus, v2, centre, side)
    n1, n2 = len(v1), len(inputs2.values)
    nngp, ntk = np.empty((n1, n2), dtype), np.empty((n1, n2), dtype)
    rows, columns = -(-n1 // side), -(-n2 // side)
    progress = Progress(0, rows * columns if v2 is not None else rows * (rows + 1) // 2, task="kernels")
    for i in range(0, n1, side):
        first = inputs1.spectra(i)
        for j in range(i if v2 is None else 0, n2, side):
            d = pairs(inputs1, first, i, inputs2, j)
            tile = average(steps, d, inputs1.alone(i), inputs2.alone(j), dtype, side)
            r, c = slice(i, min(i + side, n1)), slice(j, min(j + side, n2))
            for out, part in zip((nngp, ntk), tile, strict=True):
                out[r, c] = part if v2 is not None or i != j else (part + part.T) / 2
                if v2 is None and i != j:
                    out[c, r] = part.T
            progress.add()
    return nngp, ntk


def _tile_side(torus: tuple[int, ...]) -> int:
    """Inputs on each side of a tile, in whole vectors of the CPU engine if possible."""
    side = max(1, math.isqrt(_TILE_ELEMENTS // math.prod(torus)))
    return side - side % 16 if side > 16 else side


def _centre(torus: tuple[int, ...], v1: np.ndarray, v2: np.ndarray | None) -> np.ndarray:
    """The mean of every channel: what all inputs share cancels in distances, and would cost digits."""
    channels = v1.shape[1] // math.prod(torus)
    parts = [v.reshape(-1, channels).mean(axis=0, dtype=np.float64) for v in (v1, v2) if v is not None]
    return np.mean(parts, axis=0)


class _Inputs:
    """Inputs as (N, *torus, C), in blocks of `side`."""

    def __init__(self, torus: tuple[int, ...], v: np.ndarray, centre: np.ndarray, side: int) -> None:
        self.torus, self.centre, self.side = torus, centre, side
        self.values = v.reshape(len(v), *torus, -1)

    def block(self, i: int) -> np.ndarray:
        """(≤ side, *torus, C), in float64."""
        return np.asarray(self.values[i : i + self.side], np.float64)

    def spectra(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """What is needed of centred inputs: (transforms, (*frequencies, inputs, C); mean squares, (inputs,))."""
        block = self.block(i) - self.centre
        axes = tuple(range(1, 1 + len(self.torus)))
        spectrum = np.moveaxis(fft.rfftn(block, axes=axes, workers=threads()), 0, -2)
        return np.ascontiguousarray(spectrum), np.mean(block**2, axis=(*axes, -1))

    def alone(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """(mean squares, means) of the inputs, each (inputs,)."""
        block = self.block(i)
        block = block.reshape(len(block), -1)
        return np.mean(block**2, axis=1), np.mean(block, axis=1)


def _distances(a: _Inputs, first: tuple[np.ndarray, np.ndarray], i: int, b: _Inputs, j: int) -> np.ndarray:
    """Mean squared distances of a's block i to b's block j moved by every translation, (|T|, n1, n2)."""
    second = b.spectra(j)
    total = first[1][:, None] + second[1]
    found = total - 2 * _products(a, first, second)
    near = np.nonzero(found < _NEAR[np.dtype(a.values.dtype).name] * total)
    if len(near[0]):
        found[near] = _direct(a, i, b, j, near)
    return found


def _covariances(a: _Inputs, first: tuple[np.ndarray, np.ndarray], i: int, b: _Inputs, j: int) -> np.ndarray:
    """Mean products under all translations, of inputs from which nothing was taken."""
    return _products(a, first, b.spectra(j))


def _products(a: _Inputs, first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Mean products of two blocks of centred inputs at every translation, (|T|, n1, n2)."""
    spectrum1, spectrum2 = first[0], second[0]
    product = spectrum1 @ np.conj(np.swapaxes(spectrum2, -1, -2))
    axes = tuple(range(len(a.torus)))
    inner = fft.irfftn(product, s=a.torus, axes=axes, workers=threads())
    return np.asarray(inner.reshape(-1, len(first[1]), len(second[1])) / a.values[0].size)


def _direct(a: _Inputs, i: int, b: _Inputs, j: int, near: tuple[Any, ...]) -> np.ndarray:
    """Mean squared distances of chosen (translation, first, second), as sums of squared differences."""
    t, rows, columns = near
    block1 = a.values[i : i + a.side].reshape(-1, math.prod(a.torus), a.values.shape[-1])
    block2 = b.values[j : j + b.side].reshape(-1, *block1.shape[1:])
    positions = np.unravel_index(np.arange(block1.shape[1]), a.torus)
    step = max(1, _DIRECT_NUMBERS // block1[0].size)
    found = np.empty(len(t))
    for k in range(0, len(t), step):
        part = slice(k, k + step)
        moved = np.unravel_index(t[part], a.torus)
        source = np.ravel_multi_index(
            [(p - m[:, None]) % n for p, m, n in zip(positions, moved, a.torus, strict=True)], a.torus
        )
        gap = block1[rows[part]].astype(np.float64) - block2[columns[part, None], source]
        found[part] = np.mean(gap**2, axis=(1, 2))
    return found
