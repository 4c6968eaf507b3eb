"""The kernel of two atoms' signals, its derivatives in either, and mixed second derivatives, along many directions.

κ(c, c') = ∫ F(K(Q), q, q') dQ with K(Q) = c'ᵀ D(Q) c, q = |c|² and q' = |c'|², scaled by 1/(4πC). Along directions t
of c and t' of c' the chain rule needs K, by matrix products, and derivatives of F at single rotations:

    ∂_t ∂_t' κ = ∫ [F_KK K_t K_t' + F_Kq' K_t q'_t' + F_qK q_t K_t' + F_qq' q_t q'_t'] dQ + t'ᵀ (∫ F_K D(Q) dQ) t.

The resolution of the rotations Q is measured on the kernel's own molecules and for its own purpose: forces and tensors
depend on small parts of the kernel, so that an error that is small relative to the kernel may be large relative to
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from equitangents import precision
from equitangents._types import ArrayLike, Tree
from equitangents.errors import InvalidArgumentError, NetworkError
from equitangents.groups import MatrixGroup, so3
from equitangents.groups.rotation_group import RotationGroup
from equitangents.kernels import KernelFunction
from equitangents.kernels.angular import both, covariance, of_covariance
from equitangents.kernels.duals.smooth import CosDual, ErfDual, GeluDual, SinDual
from equitangents.kernels.engines.reference.rotations import Variances, after, moments, run, variances
from equitangents.kernels.operations import Affine, Dual
from equitangents.kernels.program import Op
from equitangents.kernels.program import flat as every_operation
from equitangents.kernels.result import Kernels
from equitangents.kernels.rotations import LADDER, RotationSections, Sphere, closed_nodes, sections
from equitangents.molecules.kernel import Pairs, check_molecules, check_question, signals_for
from equitangents.molecules.molecules import Molecules
from equitangents.molecules.signals import AtomSignals
from equitangents.sphere import rotate
from equitangents.sphere.transforms import wigner

SMOOTH = (ErfDual, GeluDual, SinDual, CosDual)
_ELEMENTS = 1 << 22  # numbers of K(Q) at a time
_FEW, _MANY = 1 << 10, 1 << 14  # numbers in a block, of whatever shape they come in: two programs are compiled
_FINEST = 20
_SAMPLED = 3  # molecules, and atoms of each, on which a resolution is measured
_STEP = 0.02  # Å: differences of the kernel over it stand for derivatives
_ROUNDING = 16 * np.finfo(np.float64).eps  # of the kernel: differences below it are none


class RotationNodes(NamedTuple):
    """Rotations and weights; rotations as matrices D(Q) on all coefficients."""

    matrices: Float[np.ndarray, "nodes coefficients coefficients"]
    weights: Float[np.ndarray, " nodes"]


@dataclass(frozen=True)
class SmoothKernel:
    """A molecular kernel at fixed rotations: one smooth function of the positions, so that forces derive from energies.

    The rotations are closed under inversion, which makes the kernel exactly symmetric. Their resolution is measured
    once, on the kernel's own molecules and for its purpose: second derivatives, which converge more slowly than the
    kernel, relative to the variance of forces; or the parts of higher degrees that give tensors.
    """

    program: RotationSections
    signals: AtomSignals
    pairs: Pairs
    resolution: int
    error_estimate: float | None = field(compare=False)

    @classmethod
    def unresolved(
        cls, net: KernelFunction, molecules: Molecules, signals: AtomSignals | None, pairs: Pairs
    ) -> SmoothKernel:
        """The kernel of a network with smooth nonlinearities, before a resolution is chosen.

        Raises NetworkError for nonlinearities after the readout, and for nonlinearities such as ReLU whose
        kernel has no second derivative at equal inputs.
        """
        check_molecules("molecules", molecules)
        check_question(net, "lower", signals, pairs)
        signals = (signals or signals_for(net)).for_molecules(molecules)
        leading, lowered = cast(Any, net).lower((signals.bandlimit**2, signals.channels))
        if leading or not isinstance(lowered.space, Sphere):
            raise NetworkError(
                "forces need a network on spherical signals, which begins with a SphereLift and ends in GroupPool"
            )
        program = sections(lowered)
        if any(not isinstance(op, Affine) for op in program.vector):
            raise NetworkError("forces need linear layers only after the readout")
        _check_smooth(program.field)
        return cls(program, signals, pairs, 0, None)

    @property
    def nodes(self) -> RotationNodes:
        """Relative rotations and weights."""
        return _nodes(self.program.group, self.signals.bandlimit, self.resolution)

    def kernel(self, x1: ArrayLike, x2: ArrayLike | None = None) -> Kernels:
        """The kernel of signals (N, B², C), in float64, which `kernels` sums over atoms."""
        weights = self.nodes.weights[:, None]
        values = self._integrals(x1, x1 if x2 is None else x2, weights)[..., 0]
        nngp, ntk = _linear(self.program, values, constant=True)
        return Kernels(nngp, ntk, form="rotations", error_estimate=self.error_estimate, resolution=self.resolution)

    def steered(self, x1: ArrayLike, x2: ArrayLike, degree: int) -> Float[np.ndarray, "2 n1 n2 d d"]:
        """∫ κ(Q) D^l(Q)ᵀ dQ, the kernel of readouts that transform as harmonics of degree l; NNGP and NTK.

        Rotating the first signals multiplies it by D^l(R) from the left, rotating the second by D^l(R)ᵀ from the right.
        """
        here = slice(degree**2, (degree + 1) ** 2)
        turns = _nodes(self.program.group, degree + 1, self.resolution).matrices[:, here, here]
        weights = self.nodes.weights[:, None] * turns.swapaxes(1, 2).reshape(len(turns), -1)
        values = np.asarray(_linear(self.program, self._integrals(x1, x2, weights), constant=degree == 0))
        return values.reshape(*values.shape[:-1], 2 * degree + 1, 2 * degree + 1)

    def _integrals(self, x1: ArrayLike, x2: ArrayLike, weights: np.ndarray) -> np.ndarray:
        """Σ_Q w_m(Q) (K, Θ)(Q) before the linear layers, (2, N1, N2, M), for weights (nodes, M)."""
        b, matrices = _scaled(x2), self.nodes.matrices
        found = np.empty((2, len(x1), len(b), weights.shape[1]))
        step = max(1, _ELEMENTS // (len(weights) * max(len(b), b[0].size)))
        for start in range(0, len(x1), step):
            a = _scaled(x1[start : start + step])
            turned = np.einsum("nkl,alc->nakc", matrices, a, optimize=True)
            k = turned.reshape(len(weights) * len(a), -1) @ b.reshape(len(b), -1).T
            q1, q2 = (a * a).sum(axis=(1, 2))[:, None], (b * b).sum(axis=(1, 2))
            with precision.scope(np.float64):
                k = k.reshape(len(weights), len(a), len(b))
                values = _values(self.program, k, q1, q2)
            found[:, start : start + step] = np.einsum("vnab,nm->vabm", values, weights, optimize=True)
        return found

    @partial(jax.jit, static_argnums=0)
    def blocks(
        self, c1: ArrayLike, t1: ArrayLike, c2: ArrayLike, t2: ArrayLike, pairs: tuple[ArrayLike, ArrayLike, ArrayLike]
    ) -> jax.Array:
        """κ and its derivatives summed over pairs of atoms, (2, 1 + D1, 1 + D2): NNGP and NTK.

        c1 (A1, B², C), t1 (A1, D1, B², C): signals of the first molecule's atoms, and D1 directions for each; c2, t2:
        of the second. pairs, (P,) each: atoms of the first, atoms of the second, and 1 for real pairs or 0 for padding.
        """
        matrices, weights = (jnp.asarray(x) for x in self.nodes)
        (a, ta), (b, tb) = ((_scaled(c), _scaled(t)) for c, t in ((c1, t1), (c2, t2)))
        one = _Atoms(a, ta, jnp.einsum("nkl,ilc->inkc", matrices, a))
        other = _Atoms(b, tb, jnp.einsum("nkl,ikc->inlc", matrices, b))

        def add(total: jax.Array, pair: tuple[ArrayLike, ArrayLike, ArrayLike]) -> tuple[jax.Array, None]:
            i, j, counts = pair
            return total + counts * _between(self.program, matrices, weights, one.at(i), other.at(j)), None

        zero = jnp.zeros((2, 1 + t1.shape[1], 1 + t2.shape[1]), c1.dtype)
        return jax.lax.scan(add, zero, pairs)[0]


class _Atoms(NamedTuple):
    """Signals c of atoms, the directions t of each, and the rotated signals: D(Q) c, for the other atom D(Q)ᵀ c'."""

    signals: jax.Array
    directions: jax.Array
    turned: jax.Array

    def at(self, i: ArrayLike) -> _Atoms:
        """One of these atoms, by its index."""
        return _Atoms(self.signals[i], self.directions[i], self.turned[i])


def _between(
    program: RotationSections, matrices: jax.Array, weights: jax.Array, one: _Atoms, other: _Atoms
) -> jax.Array:
    """κ of two atoms and its derivatives, (2, 1 + D1, 1 + D2): value, derivatives in either, mixed derivatives."""
    flat = lambda v: v.reshape(len(v), -1)
    x, y = (flat(jnp.concatenate([atom.signals[None], atom.directions])) for atom in (one, other))
    along = flat(other.turned) @ x.T  # K and its derivatives along t, (nodes, 1 + D1)
    k1, k2 = along[:, 1:], flat(one.turned) @ flat(other.directions).T
    q1, q2 = x[0] @ x.T, y[0] @ y.T
    slope1, slope2 = 2 * q1[1:], 2 * q2[1:]
    w = {name: weights * value for name, value in _derivatives(program, along[:, 0], q1[0], q2[0]).items()}
    # the chain rule of the module's head, term by term
    mixed = jnp.einsum("vn,nd,ne->vde", w["kk"], k1, k2)
    mixed += (w["kq2"] @ k1)[:, :, None] * slope2 + slope1[:, None] * (w["q1k"] @ k2)[:, None, :]
    mixed += w["q1q2"].sum(axis=1)[:, None, None] * slope1[:, None] * slope2
    mean = jnp.einsum("vn,nkl->vkl", w["k"], matrices)  # ∫ F_K D(Q) dQ
    mixed += jnp.einsum("vdkc,ekc->vde", jnp.einsum("vkl,dlc->vdkc", mean, one.directions), other.directions)
    along1 = w["k"] @ k1 + w["q1"].sum(axis=1)[:, None] * slope1
    along2 = w["k"] @ k2 + w["q2"].sum(axis=1)[:, None] * slope2
    value = _linear(program, w["value"].sum(axis=1)[:, None, None], constant=True)
    slopes = lambda v: _linear(program, v, constant=False)
    top = jnp.concatenate([value, slopes(along2[:, None, :])], axis=2)
    rest = jnp.concatenate([slopes(along1[:, :, None]), slopes(mixed)], axis=2)
    return jnp.concatenate([top, rest], axis=1)


@lru_cache(maxsize=16)
def _nodes(group: RotationGroup | MatrixGroup, bandlimit: int, resolution: int) -> RotationNodes:
    turns, weights = closed_nodes(group, resolution)
    blocks = wigner(turns, bandlimit)
    matrices = np.zeros((len(turns), bandlimit**2, bandlimit**2))
    for l, block in enumerate(blocks):
        here = slice(l * l, (l + 1) ** 2)
        matrices[:, here, here] = block
    return RotationNodes(matrices, weights)


def _scaled(c: ArrayLike) -> Tree:
    """Signals (..., B², C) for the input kernel, in float64 unless traced."""
    c = c if isinstance(c, jax.Array) else np.asarray(c, np.float64)
    return c / (4 * np.pi * c.shape[-1]) ** 0.5


def _field(program: RotationSections, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> jax.Array:
    """(NNGP, NTK) at single rotations before the readout, (2, ...)."""
    m1, m2 = (moments(program.field, Variances(q, jnp.zeros_like(q))) for q in (q1, q2))
    e, theta = run(program.field, of_covariance(k, both(q1, q2)), jnp.zeros_like(k), m1, m2)
    return jnp.stack([covariance(e, variances(after(m1), after(m2))), theta])


_compiled_field = jax.jit(_field, static_argnums=0)


def _values(program: RotationSections, k: np.ndarray, q1: np.ndarray, q2: np.ndarray) -> np.ndarray:
    """`_field` of broadcast arrays, (2, *k.shape), in blocks of one size, the last padded with zeros."""
    size = _FEW if k.size <= _FEW else _MANY
    flat = np.zeros((3, -(-k.size // size) * size))
    for row, numbers in zip(flat, (k, q1, q2), strict=True):
        row[: k.size].reshape(k.shape)[...] = numbers
    parts = [_compiled_field(program, *flat[:, i : i + size]) for i in range(0, flat.shape[1], size)]
    return np.concatenate(parts, axis=1)[:, : k.size].reshape(2, *k.shape)


def _derivatives(program: RotationSections, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> dict[str, jax.Array]:
    """F and its derivatives in K, q and q', each (2, nodes); only K differs between nodes."""
    one = jnp.ones_like(k)

    def along(function: Callable[..., Tree], point: tuple[ArrayLike, ...], *directions: tuple[int, int, int]) -> Tree:
        """(value, stacked derivatives in two directions) by one batched pass, which compiles twice as fast as two."""
        tangents = tuple(jnp.stack([part * one for part in parts]) for parts in zip(*directions, strict=True))
        return jax.vmap(lambda *v: jax.jvp(function, point, v), out_axes=(None, 0))(*tangents)

    inner = lambda *x: along(partial(_field, program), x, (1, 0, 0), (0, 1, 0))
    (value, (by_k, by_q1)), (slopes, mixed) = along(inner, (k, q1 * one, q2 * one), (1, 0, 0), (0, 0, 1))
    return {
        "value": value, "k": by_k, "q1": by_q1, "q2": slopes[1],
        "kk": mixed[0, 0], "kq2": mixed[1, 0], "q1k": mixed[0, 1], "q1q2": mixed[1, 1],
    }  # fmt: skip


def _linear(program: RotationSections, values: ArrayLike, constant: bool) -> ArrayLike:
    """(NNGP, NTK), (2, ...), after the linear layers of the readout; for derivatives without their biases."""
    k, theta = values
    for op in program.vector:
        assert isinstance(op, Affine)
        k = op.W_var * k + (op.b_var if constant else 0.0)
        theta = k + op.W_var * theta
    return (jnp if isinstance(k, jax.Array) else np).stack([k, theta])


def _check_smooth(ops: tuple[Op, ...]) -> None:
    for op in every_operation(ops):
        if isinstance(op, Dual) and not isinstance(op.activation, SMOOTH):
            expected = "Erf, Gelu, Sin or Cos, since forces need second derivatives"
            raise NetworkError("nonlinearity", type(op.activation), expected, verb="is")


def kernel_for_forces(
    net: KernelFunction, molecules: Molecules, signals: AtomSignals | None = None, pairs: Pairs = "same element"
) -> SmoothKernel:
    """The kernel of energies and forces of such molecules, at the resolution needed for its second derivatives.

    Raises NetworkError as `SmoothKernel.unresolved`, and InvalidArgumentError if no resolution reaches the network's
    tolerance.
    """
    kernel = SmoothKernel.unresolved(net, molecules, signals, pairs)
    return resolved(kernel, lambda r: slope_error(kernel, molecules, r))


def kernel_for_tensors(
    net: KernelFunction,
    molecules: Molecules,
    degrees: Sequence[int],
    signals: AtomSignals | None = None,
    pairs: Pairs = "same element",
) -> SmoothKernel:
    """The kernel of tensors that transform as harmonics of `degrees`, at the resolution for `SmoothKernel.steered`.

    Raises errors as `kernel_for_forces`.
    """
    kernel = SmoothKernel.unresolved(net, molecules, signals, pairs)
    return resolved(kernel, lambda r: steering_error(kernel, molecules, degrees, r))


def resolved(kernel: SmoothKernel, measured: Callable[[int], float]) -> SmoothKernel:
    """The kernel with the lowest resolution at which the measured error is within the network's tolerance.

    Raises InvalidArgumentError if no resolution is fine enough.
    """
    accuracy = kernel.program.accuracy
    if not kernel.program.is_sampled:
        return replace(kernel, resolution=0)
    own, error = accuracy.resolution, np.inf
    for r in LADDER if own is None else (own,):
        if own is not None or (2 * r > kernel.signals.bandlimit and r <= _FINEST):
            error = measured(r)
            if own is not None or error <= accuracy.tolerance:
                return replace(kernel, resolution=r, error_estimate=error)
    raise InvalidArgumentError(
        "tolerance",
        accuracy.tolerance,
        f"at least {error:.1e}, as resolution {_FINEST} reaches",
        "the signals are too large for the nonlinearity: lower SphereLift's W_std, or give resolution",
    )


def slope_error(kernel: SmoothKernel, molecules: Molecules, resolution: int) -> float:
    """Error of Cov(F, F') at a resolution, relative to the variance, along random displacements of a few molecules."""
    rng = np.random.default_rng(0)
    moved = []
    for i in _largest(kernel, molecules):
        z = molecules.atomic_numbers[i : i + 1]
        x = molecules.positions[i : i + 1].astype(np.float64)
        step = rng.normal(size=x.shape) * _STEP
        for sign in (1, -1):
            moved.append(_largest_atoms(kernel.signals.coefficients(z, x + sign * step)[z > 0]))
    plus, minus = np.concatenate(moved[::2]), np.concatenate(moved[1::2])
    n, found, size = len(plus), [], np.zeros(2)
    for r in (resolution, _finer(resolution)):
        k = replace(kernel, resolution=r).kernel(np.concatenate([plus, minus]))
        values = np.stack([k.nngp, k.ntk])
        size = np.abs(values).max(axis=(1, 2))
        found.append(values[:, :n, :n] - values[:, :n, n:] - values[:, n:, :n] + values[:, n:, n:])
    return _relative(found[0] - found[1], np.einsum("vii->vi", found[1]).max(axis=1), size)


def steering_error(kernel: SmoothKernel, molecules: Molecules, degrees: Sequence[int], resolution: int) -> float:
    """Largest relative error, at a resolution, of the parts that transform as harmonics of some degrees.

    Measured on atoms' signals and rotated copies of them, since grids are densest around the identity.
    """
    largest = (kernel.signals(molecules[[i]]).signals.astype(np.float64) for i in _largest(kernel, molecules))
    signals = np.concatenate(list(map(_largest_atoms, largest)))
    if not signals.any():
        return 0.0  # lone atoms, which see the same from all sides
    both = np.concatenate([signals, rotate(signals, so3(1).random(1)[0])])
    errors = [0.0]
    for degree in degrees:
        coarse, fine = (
            replace(kernel, resolution=r).steered(signals, both, degree) for r in (resolution, _finer(resolution))
        )
        own = np.einsum("viikk->vik", fine[:, :, : len(signals)]).max(axis=(1, 2))
        norm = np.abs(replace(kernel, resolution=resolution).kernel(signals).ntk).max()
        errors.append(_relative(coarse - fine, own, np.full(2, norm)))
    return float(np.max(errors))  # NaN if any is


def _largest(kernel: SmoothKernel, molecules: Molecules) -> np.ndarray:
    """The molecules with the largest signals, which are the least smooth."""
    fields = kernel.signals(molecules)
    size = np.zeros(len(molecules))
    np.maximum.at(size, fields.molecule, (fields.signals.astype(np.float64) ** 2).sum(axis=(1, 2)))
    return np.argsort(-size, kind="stable")[:_SAMPLED]


def _largest_atoms(c: ArrayLike) -> np.ndarray:
    return np.asarray(c)[np.argsort(-(c**2).sum(axis=(1, 2)))[:_SAMPLED]]


def _finer(resolution: int) -> int:
    return resolution + resolution // 2 + 1


def _relative(difference: np.ndarray, scale: np.ndarray, size: np.ndarray) -> float:
    """The largest difference relative to `scale`, for each kernel; 0 if it is within rounding for values of `size`."""
    error = np.abs(difference).reshape(len(difference), -1).max(axis=1)
    counts = error > _ROUNDING * size
    return float((error[counts] / np.maximum(scale[counts], _ROUNDING * size[counts])).max(initial=0.0))
