"""Which architectures and groups are compared on a grid, and how many inputs a budget of time pays for.

time(N) = Σ over kernel matrices of (pairs · seconds a pair) + repetitions · (n³/3 + n² · test inputs) / rate; n is the
largest training set. Pairs of inputs cost what `Sequential.kernel_cost` says of this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.extending import duration
from equitangents_studies.systems.architectures import architecture
from equitangents_studies.systems.data_groups import DataGroup, data_group
from equitangents_studies.systems.theorem_tables import expected_symmetry

TEST_SHARE = 0.2
_POOLS = (4, 8, 2)  # sides of the local pooling that is tried first
_RATE = 5e9  # multiply-adds a second of a Cholesky factor on one core, on the slow side
_PAIRS_OF = 100  # inputs whose kernel is asked for to learn what a pair costs


def default_architectures(shape: tuple[int, ...]) -> tuple[str, ...]:
    """FCN, VEC, LAP with windows that fit into the grid more than once, and GAP, from most symmetries to fewest.

    >>> default_architectures((8, 8, 3)), default_architectures((7, 7, 3))
    (('FCN', 'VEC', 'LAP4', 'GAP'), ('FCN', 'VEC', 'GAP'))
    """
    grid = shape[:-1]
    fitting = [k for k in _POOLS if all(size % k == 0 for size in grid) and any(size > k for size in grid)]
    return ("FCN", "VEC", *(f"LAP{k}" for k in fitting[:1]), "GAP")


def check_grid(shape: tuple[int, ...]) -> None:
    """Raise ShapeError unless signals of `shape` = (*positions, channels) have one to three axes of positions."""
    if not 2 <= len(shape) <= 4 or max(shape[:-1]) < 2:
        raise ShapeError(
            f"x holds inputs of shape {shape}; expected signals (*positions, channels) on a grid of 1 to 3 axes, such "
            "as images (N, height, width, channels)"
        )


def check_architectures(names: Sequence[str] | None, shape: tuple[int, ...]) -> tuple[str, ...]:
    """The architectures to compare, without repetitions and from most symmetries to fewest."""
    if names is None:
        return default_architectures(shape)
    for name in names:
        if architecture(name, depth=1) is not None and name.startswith("LAP"):
            side = int(name[3:])
            if any(size % side for size in shape[:-1]):
                raise InvalidArgumentError(f"architectures has {name}, and the grid is {shape[:-1]}")
    order = ("FCN", "LCN", "VEC", "LAP", "GAP")
    found = tuple(sorted(dict.fromkeys(names), key=lambda name: order.index(name[:3])))
    if len(found) < 2:
        raise InvalidArgumentError(f"architectures is {list(names)}; expected two or more, to compare them")
    return found


def check_groups(names: Sequence[str], shape: tuple[int, ...]) -> tuple[DataGroup, ...]:
    """The groups that data are moved by, without the identity and without repetitions."""
    return tuple(dict.fromkeys(group for name in names if (group := data_group(name, shape)).letter != "I"))


def notices(name: str, group: DataGroup, shape: tuple[int, ...]) -> bool:
    """Whether an architecture of infinite width makes other predictions of moved data, by Theorem 4.1."""
    return not expected_symmetry(name, group.name, shape, finite=False)


@dataclass(frozen=True)
class Job:
    """A kernel that is computed `matrices` times: of data as they are, and moved."""

    net: Any
    matrices: int


@dataclass(frozen=True)
class Affordable:
    """How many of the `available` inputs are used, of how many kernel matrices, and what that is expected to take."""

    inputs: int
    available: int
    test_inputs: int
    matrices: int
    seconds: float
    uncertainty: float
    minutes: float

    @property
    def scaled_down(self) -> bool:
        """Whether the budget left inputs out."""
        return self.inputs < self.available

    def __str__(self) -> str:
        text = (
            f"{self.matrices} kernel matrices of {self.inputs:,} inputs: about {duration(self.seconds)} (within a "
            f"factor of {self.uncertainty:.1f})."
        )
        if self.scaled_down:
            text += f" These are {self.inputs:,} of {self.available:,} inputs, drawn at random."
        return text


def affordable(
    jobs: Sequence[Job],
    shape: tuple[int, ...],
    available: int,
    apart: int,
    wanted: int | None,
    least: int,
    repetitions: int,
    minutes: float,
) -> Affordable:
    """As many inputs as the budget pays for, or the `wanted` ones.

    apart: inputs of a test set of its own, of which no more are used than are trained on; 0: a share is held out.
    Raises InvalidArgumentError where fewer than `least` inputs, or fewer than are wanted, fit into `minutes`.
    """
    costs = [job.net.kernel_cost(shape, _PAIRS_OF, dtype="float32") for job in jobs]
    rate = sum(job.matrices * cost.seconds / cost.pairs for job, cost in zip(jobs, costs, strict=True))
    matrices = sum(job.matrices for job in jobs)

    def seconds(n: int) -> float:
        tested = min(apart, n) or round(TEST_SHARE * n)
        trained = n if apart else n - tested
        pairs = n * (n + 1) // 2 + (n * tested if apart else 0)
        return rate * pairs + matrices * repetitions * (trained**3 / 3 + trained**2 * tested) / _RATE

    def result(n: int) -> Affordable:
        return Affordable(
            n, available, min(apart, n) or round(TEST_SHARE * n), matrices, seconds(n),
            max(cost.uncertainty for cost in costs), minutes,
        )  # fmt: skip

    if available < least:
        raise InvalidArgumentError(f"x holds {available} inputs; expected at least {least}, for curves of four sizes")
    if wanted is not None:
        if not least <= wanted <= available:
            raise InvalidArgumentError(f"inputs is {wanted}; expected {least} to {available}, which x holds")
        _check_paid(wanted, seconds(wanted), minutes)
        return result(wanted)
    _check_paid(least, seconds(least), minutes)
    low, high = least, available
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if seconds(middle) <= 60 * minutes else (low, middle - 1)
    return result(low if low == available else max(least, _two_digits(low)))


def _check_paid(n: int, seconds: float, minutes: float) -> None:
    if seconds > 60 * minutes:
        raise InvalidArgumentError(
            f"kernels of {n} inputs would take about {duration(seconds)}, more than minutes={minutes:g}; allow more, "
            "name fewer architectures or groups, or average the grid down"
        )


def _two_digits(n: int) -> int:
    """Rounded down, so that a small change of the machine's speed seldom changes the number."""
    unit = 10 ** max(len(str(n)) - 2, 0)
    return n // unit * unit
