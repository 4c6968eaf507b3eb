"""The kernels that are timed: ReLU networks, dense on vectors and convolutions of 3×3 on images, as a few numbers.

`Job` travels to other interpreters as JSON, so it holds nothing but numbers and names.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

W_STD, B_STD = 2**0.5, 0.1


@dataclass(frozen=True)
class Job:
    """Kernels of n1 × n2 images of side×side×3, or with side 0 of vectors of `channels` numbers."""

    layers: int
    side: int
    readout: str  # "flatten" or "pool", of no meaning to vectors
    n1: int
    n2: int
    dtype: str = "float32"
    symmetric: bool = False  # the first n1 with themselves
    channels: int = 3

    @property
    def element_layers(self) -> int:
        """Of one pair."""
        positions = max(self.side, 1) ** 2
        return self.layers * positions * (positions if self.readout == "pool" and self.side else 1)

    @property
    def pairs(self) -> int:
        """How many results differ."""
        return self.n1 * (self.n1 + 1) // 2 if self.symmetric else self.n1 * self.n2

    def sized(self, n1: int, n2: int) -> Job:
        """The same of other numbers of inputs."""
        return replace(self, n1=n1, n2=n2)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Case:
    """A job with a name, the number of inputs that others are given, and the ratios to reach."""

    name: str
    job: Job
    few: int  # inputs on each side for the reference engine and the peer
    over_peer: float | None = None
    of_bound: float | None = None


CASES = (
    Case("GAP, 3 layers, 16×16×3", Job(3, 16, "pool", 64, 64), 8, 45, 0.6),
    Case("GAP, 8 layers, 32×32×3", Job(8, 32, "pool", 16, 16), 2, 45, 0.6),
    Case("VEC, 3 layers, 32×32×3", Job(3, 32, "flatten", 256, 256), 64, 20, 0.5),
    Case("VEC, 8 layers, 32×32×3", Job(8, 32, "flatten", 128, 128), 64, 20, 0.5),
    Case("VEC, 3 layers, 32×32×3, symmetric", Job(3, 32, "flatten", 1000, 1000, symmetric=True), 64, 20, 0.5),
    Case("MLP, 3 layers, d = 784", Job(3, 0, "flatten", 2000, 2000, channels=784), 2000, 4, 0.6),
)
QUICK = (0, 1, 2, 5)  # of the cases
