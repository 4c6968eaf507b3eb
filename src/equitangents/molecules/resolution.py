"""How finely a molecular kernel samples rotations: measured on the molecules it is made for, and on what it is for.

What forces and tensors are made of is a small part of the kernel, so that an error that is small beside the kernel may
be large beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from equitangents.errors import InvalidArgumentError
from equitangents.groups import so3
from equitangents.kernels import KernelFunction
from equitangents.kernels.rotations import LADDER
from equitangents.molecules.kernel import Pairs
from equitangents.molecules.molecules import Molecules
from equitangents.molecules.signals import AtomSignals
from equitangents.molecules.smooth_kernel import SmoothKernel
from equitangents.sphere import rotate

_FINEST = 20
_SAMPLED = 3  # molecules, and atoms of each, on which a resolution is measured
_STEP = 0.02  # Å: differences of the kernel over it stand for derivatives
_ROUNDING = 16 * np.finfo(np.float64).eps  # of the kernel: differences below it are none


def kernel_for_forces(
    net: KernelFunction, molecules: Molecules, signals: AtomSignals | None = None, pairs: Pairs = "same element"
) -> SmoothKernel:
    """The kernel of energies and forces of molecules like these, at the resolution that its second derivatives need.

    Raises NetworkError as `SmoothKernel.unresolved`, and InvalidArgumentError where no resolution reaches the network's
    tolerance.
    """
    kernel = SmoothKernel.unresolved(net, molecules, signals, pairs)
    return resolved(kernel, lambda r: slope_error(kernel, molecules, r), "second derivatives")


def kernel_for_tensors(
    net: KernelFunction,
    molecules: Molecules,
    degrees: Sequence[int],
    signals: AtomSignals | None = None,
    pairs: Pairs = "same element",
) -> SmoothKernel:
    """The kernel of what turns as harmonics of `degrees`, at the resolution that `SmoothKernel.steered` needs for them.

    Raises errors as `kernel_for_forces`, and NetworkError for a network that ends without a mean over rotations:
    nothing of it turns.
    """
    kernel = SmoothKernel.unresolved(net, molecules, signals, pairs)
    return resolved(kernel, lambda r: steering_error(kernel, molecules, degrees, r), "vectors and tensors")


def resolved(kernel: SmoothKernel, measured: Callable[[int], float], what: str) -> SmoothKernel:
    """The kernel with the lowest resolution at which the measured error is within the network's tolerance.

    Raises InvalidArgumentError where no resolution is fine enough for `what` is measured.
    """
    accuracy = kernel.program.accuracy
    if not kernel.program.is_sampled:
        return replace(kernel, resolution=0)
    if accuracy.resolution is not None:
        return replace(kernel, resolution=accuracy.resolution, error_estimate=measured(accuracy.resolution))
    error = np.inf
    for r in LADDER:
        if 2 * r > kernel.signals.bandlimit and r <= _FINEST:
            error = measured(r)
            if error <= accuracy.tolerance:
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
            c = kernel.signals.coefficients(z, x + sign * step)[z > 0]
            moved.append(c[np.argsort(-(c**2).sum(axis=(1, 2)))[:_SAMPLED]])
    plus, minus = np.concatenate(moved[::2]), np.concatenate(moved[1::2])
    n, found, size = len(plus), [], np.zeros(2)
    for r in (resolution, _finer(resolution)):
        k = replace(kernel, resolution=r).kernel(np.concatenate([plus, minus]))
        values = np.stack([k.nngp, k.ntk])
        size = np.abs(values).max(axis=(1, 2))
        found.append(values[:, :n, :n] - values[:, :n, n:] - values[:, n:, :n] + values[:, n:, n:])
    return _relative(found[0] - found[1], np.einsum("vii->vi", found[1]).max(axis=1), size)


def steering_error(kernel: SmoothKernel, molecules: Molecules, degrees: Sequence[int], resolution: int) -> float:
    """Error at a resolution of what turns as harmonics of some degrees, relative to its size, the worst of them.

    On atoms' signals and on turned copies of them: grids are densest where a signal meets itself.
    """
    atoms = []
    for i in _largest(kernel, molecules):
        c = kernel.signals(molecules[[i]]).signals.astype(np.float64)
        atoms.append(c[np.argsort(-(c**2).sum(axis=(1, 2)))[:_SAMPLED]])
    signals = np.concatenate(atoms)
    if not signals.any():
        return 0.0  # lone atoms, which see the same from all sides
    both = np.concatenate([signals, rotate(signals, so3(1).random(1)[0])])
    errors = [0.0]
    for degree in degrees:
        coarse, fine = (
            replace(kernel, resolution=r).steered(signals, both, degree) for r in (resolution, _finer(resolution))
        )
        own = np.einsum("viikk->vik", fine[:, :, : len(signals)]).max(axis=(1, 2))
        whole = np.abs(replace(kernel, resolution=resolution).kernel(signals).ntk).max()
        errors.append(_relative(coarse - fine, own, np.full(2, whole)))
    return float(np.max(errors))  # NaN if any is


def _largest(kernel: SmoothKernel, molecules: Molecules) -> np.ndarray:
    """Molecules with the largest signals, which are the least smooth."""
    fields = kernel.signals(molecules)
    size = np.zeros(len(molecules))
    np.maximum.at(size, fields.molecule, (fields.signals.astype(np.float64) ** 2).sum(axis=(1, 2)))
    return np.argsort(-size, kind="stable")[:_SAMPLED]


def _finer(resolution: int) -> int:
    return resolution + resolution // 2 + 1


def _relative(difference: np.ndarray, scale: np.ndarray, size: np.ndarray) -> float:
    """The largest difference relative to `scale`, of each kernel; none where it is rounding of numbers of `size`."""
    error = np.abs(difference).reshape(len(difference), -1).max(axis=1)
    counts = error > _ROUNDING * size
    return float((error[counts] / np.maximum(scale[counts], _ROUNDING * size[counts])).max(initial=0.0))
