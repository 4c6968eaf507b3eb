"""Kernels of molecules: sums over atoms of the kernel of the atoms' signals.

k(m, m') = Σ_{i ∈ m, j ∈ m'} [z_i = z_j] κ(f_i, f'_j), κ the kernel of a rotation-invariant network. So k
is invariant under rotations of a molecule (to the network's tolerance), translations, and renumbering of its atoms (to
rounding). It is the kernel of a sum of independent networks, one for each element.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.sparse import csr_array

from equitangents._types import KernelName
from equitangents.errors import InvalidTypeError
from equitangents.kernels import KernelFunction
from equitangents.kernels.result import Kernels
from equitangents.molecules.molecules import Molecules
from equitangents.molecules.signals import AtomSignals, Neighbourhoods
from equitangents.validation import check_choice

Pairs = Literal["same element", "all"]
_BLOCK = 4096  # atoms in a block of κ


def kernel(
    net: KernelFunction,
    molecules1: Molecules,
    molecules2: Molecules | None = None,
    *,
    kernel: KernelName = "ntk",
    signals: AtomSignals | None = None,
    pairs: Pairs = "same element",
) -> Float[np.ndarray, "n1 n2"]:
    """The NTK or NNGP of `kernels` as an array; the same options."""
    check_choice("kernel", kernel, ("ntk", "nngp"))
    found = kernels(net, molecules1, molecules2, signals=signals, pairs=pairs)
    return np.asarray(found.ntk if kernel == "ntk" else found.nngp)


def kernels(
    net: KernelFunction,
    molecules1: Molecules,
    molecules2: Molecules | None = None,
    *,
    signals: AtomSignals | None = None,
    pairs: Pairs = "same element",
) -> Kernels:
    """NNGP and NTK between two sets of molecules (molecules2 None: the first with itself), each (N1, N2).

    Args:
        net: A network on spherical signals, from `SphereLift` to a readout; `SphereLift(tolerance=)` sets the accuracy.
        molecules1: N1 molecules.
        molecules2: N2 molecules; None: molecules1, at half the cost.
        signals: The atoms' signals; by default `signals_for(net)` with the elements of these molecules. Set `elements`
            if kernels of several sets must be consistent.
        pairs: Which atoms are compared: those of the same element, or all.

    Returns:
        `error_estimate` is the largest error estimate of the atoms' kernels, relative to √(κ(f, f) κ(f', f')).

    Raises:
        InvalidArgumentError: For elements without channels in `signals`.
        InvalidTypeError: For arguments that are not molecules, signals or a network.
    """
    check_question(net, "kernel", signals, pairs)
    check_molecules("molecules1", molecules1)
    if molecules2 is not None:
        check_molecules("molecules2", molecules2)
    batches = [m for m in (molecules1, molecules2) if m is not None]
    signals = (signals or signals_for(net)).for_molecules(*batches)
    first = signals(molecules1)
    second = None if molecules2 is None else signals(molecules2)
    size = (len(molecules1), len(molecules1 if molecules2 is None else molecules2))
    total, found = np.zeros((2, *size)), []
    for one, other in compared(first, first if second is None else second, pairs):
        a, b = _in_order(first, one), None if second is None else _in_order(second, other)
        for rows, columns, part in _blocks(net, a, b):
            left, right = sum_over_atoms(a, rows, size[0]), sum_over_atoms(b or a, columns, size[1])
            for out, values in zip(total, (part.nngp, part.ntk), strict=True):
                block = left @ np.asarray(values, np.float64) @ right.T
                out += block
                if b is None and rows != columns:
                    out += block.T
            found.append(part)
    return _result(total, first.signals.dtype, found)


def check_molecules(name: str, value: object) -> None:
    """Raise InvalidTypeError unless these are Molecules."""
    if not isinstance(value, Molecules):
        raise InvalidTypeError(name, type(value), "equitangents.molecules.Molecules", verb="is of type")


def check_question(net: object, method: str, signals: object, pairs: object) -> None:
    """Raise unless the network has the method `method`, and signals and pairs are valid."""
    if not callable(getattr(net, method, None)):
        raise InvalidTypeError("net", net, "a network on spherical signals, with", method)
    if not (signals is None or isinstance(signals, AtomSignals)):
        raise InvalidTypeError("signals", signals, "AtomSignals or None")
    check_choice("pairs", pairs, ("same element", "all"))


def signals_for(net: KernelFunction) -> AtomSignals:
    """Signals for a network: those of `AtomSignals()`, or with fewer degrees if its group's bandlimit is lower."""
    lift = next(iter(getattr(net, "layers", ())), None)
    limit = getattr(getattr(lift, "onto", None), "bandlimit", None)
    default = AtomSignals()
    return default if limit is None or limit >= default.bandlimit else AtomSignals(bandlimit=limit)


def compared(
    first: Neighbourhoods, second: Neighbourhoods, pairs: Pairs
) -> Iterator[tuple[slice | np.ndarray, slice | np.ndarray]]:
    """Yield rows of atoms to compare: those of each element in both sets, or all."""
    if pairs == "all":
        yield slice(None), slice(None)
        return
    for z in np.intersect1d(first.element, second.element):
        yield first.element == z, second.element == z


def _in_order(fields: Neighbourhoods, which: slice | np.ndarray) -> Neighbourhoods:
    """Atoms sorted by the size of their signal, so that their numbering has no effect: a network measures its
    resolution on some of its signals.
    """
    size = (fields.signals[which].astype(np.float64) ** 2).sum(axis=(1, 2))
    order = np.argsort(-size, kind="stable")
    return Neighbourhoods(*(x[which][order] for x in fields))


def _blocks(net: KernelFunction, a: Neighbourhoods, b: Neighbourhoods | None) -> Iterator[tuple[slice, slice, Kernels]]:
    """κ in blocks; for a symmetric problem only those on and above the diagonal."""
    columns = a if b is None else b
    for i in range(0, len(a.signals), _BLOCK):
        here = slice(i, i + _BLOCK)
        for j in range(i if b is None else 0, len(columns.signals), _BLOCK):
            there = slice(j, j + _BLOCK)
            own = b is None and i == j
            yield here, there, net.kernel(a.signals[here], None if own else columns.signals[there])


def sum_over_atoms(fields: Neighbourhoods, which: slice, molecules: int) -> csr_array:
    """The matrix (molecules, atoms of the slice) that sums over the atoms of each molecule."""
    molecule = fields.molecule[which]
    ones = np.ones(len(molecule))
    return csr_array((ones, (molecule, np.arange(len(molecule)))), shape=(molecules, len(molecule)))


def _result(total: np.ndarray, dtype: np.dtype, found: list[Kernels]) -> Kernels:
    errors = [k.error_estimate for k in found if k.error_estimate is not None]
    resolutions = [k.resolution for k in found if k.resolution is not None]
    notes = tuple(dict.fromkeys(note for k in found for note in k.notes))
    return Kernels(
        total[0].astype(dtype),
        total[1].astype(dtype),
        found[0].engine if found else "reference",
        "sum over atoms",
        notes,
        max(errors, default=None),
        max(resolutions, default=None),
    )
