"""Settings of the study of broken symmetry, what is measured, and statistics of it over members.

All of them are functions of ⟨a, b⟩ = E_x E_θ a(x) · E_θ b(x), estimated without the bias of finite ensembles: products
of a member with itself are left out. Intervals are those of the jackknife over members, Student's of its pseudo-values;
networks with the same number are left out together wherever they take part, so that what they share cancels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from equitangents.extending import check_array
from equitangents.statistics import Estimate, t_interval

OTHERS = {"GAP": "GAP of the same width", "VEC": "infinitely wide VEC"}


@dataclass(frozen=True)
class Settings:
    """`data` as in `symmetry-groups`: "auto", "textures", "digits" or a data set. `train_images` and `test_images` of
    `pixels` × `pixels`; VEC on images moved to each of the `times` of a path, GAP on images as they are, both of
    `depth` hidden layers and `widths` channels, `members` networks of each by NN+ for at most `epochs`; infinitely
    wide VEC by the NTK with `ridge`.
    """

    data: str = "auto"
    train_images: int = 50
    test_images: int = 50
    pixels: int = 8
    times: tuple[float, ...] = (0.0, 0.5, 1.5)
    widths: tuple[int, ...] = (4, 16)
    depth: int = 2
    members: int = 8
    epochs: int = 40
    ridge: float = 1e-6
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Product:
    """⟨a, b⟩ of two ensembles, from all members and without each of them in turn."""

    whole: float
    without: np.ndarray


@dataclass(frozen=True, eq=False)
class Results:
    """`source` names the data, `labels` (test images,) are their classes. Outputs (members, test images, classes) of
    `vec` by (width, time) and of `gap` by width, and training accuracies (members,) `learnt` and `gap_learnt`; `limit`
    (test images, classes) of infinitely wide VEC.
    """

    source: str
    vec: dict[tuple[int, float], np.ndarray]
    gap: dict[int, np.ndarray]
    learnt: dict[tuple[int, float], np.ndarray]
    gap_learnt: dict[int, np.ndarray]
    limit: np.ndarray
    labels: np.ndarray

    def difference(self, other: str, width: int, time: float) -> np.ndarray:
        """Outputs of VEC minus those of one of OTHERS, member by member."""
        return self.vec[width, time] - (self.gap[width] if other == "GAP" else self.limit)

    def distance(self, other: str, width: int, time: float) -> Product:
        """S-Dist to one of OTHERS; below 0 where noise hides it, if there is one."""
        apart = self.difference(other, width, time)
        return product(apart, apart)

    def plain(self, other: str, width: int, time: float) -> float:
        """S-Dist with the bias of finite ensembles, as equation S16 of the source has it."""
        mean = self.difference(other, width, time).mean(axis=0)
        return float((mean**2).sum(axis=1).mean())

    def size(self, width: int, time: float) -> Product:
        """The mean square of VEC's mean prediction, sum over classes."""
        return product(self.vec[width, time], self.vec[width, time])

    def cosine(self, width: int, time: float) -> Estimate:
        """The cosine between the mean predictions of VEC and of GAP of one width."""
        vec, gap = self.vec[width, time], self.gap[width]
        across = lambda ab, aa, bb: ab / np.sqrt(np.abs(aa * bb))
        return over_members(across, product(vec, gap), product(vec, vec), product(gap, gap))

    def accuracy_change(self, width: int, first: float, last: float) -> Estimate:
        """Test accuracy of single networks at one time minus that at an earlier one, network by network, in points."""
        ends = [self._right(self.vec[width, t]) for t in (first, last)]
        return t_interval(ends[1] - ends[0], bounds=(-100, 100))

    def accuracy(self, width: int, time: float) -> Estimate:
        """Test accuracy of single networks in percent."""
        return t_interval(self._right(self.vec[width, time]), bounds=(0, 100))

    def gap_accuracy(self, width: int) -> Estimate:
        """That of GAP of one width, on images as they are."""
        return t_interval(self._right(self.gap[width]), bounds=(0, 100))

    @property
    def limit_accuracy(self) -> float:
        """That of infinitely wide VEC."""
        return float(self._right(self.limit))

    def _right(self, outputs: np.ndarray) -> np.ndarray:
        return np.asarray(100 * (outputs.argmax(axis=-1) == self.labels).mean(axis=-1))


def product(a: np.ndarray, b: np.ndarray) -> Product:
    """⟨a, b⟩ of outputs (members, inputs, classes), mean over inputs, sum over classes."""
    inputs, m = a.shape[1], len(a)
    a, b = (np.asarray(check_array("outputs", v, rank=3), np.float64).reshape(m, -1) for v in (a, b))
    with_all = a @ b.T
    own, total = np.diag(with_all), with_all.sum()
    whole = (total - own.sum()) / (m * (m - 1) * inputs)
    rest = total - with_all.sum(axis=0) - with_all.sum(axis=1) + own
    return Product(float(whole), (rest - own.sum() + own) / ((m - 1) * (m - 2) * inputs))


def over_members(compute: Callable[..., float | np.ndarray], *products: Product, level: float = 0.95) -> Estimate:
    """`compute` of products, with its interval over members."""
    whole = float(compute(*(p.whole for p in products)))
    without = np.asarray(compute(*(p.without for p in products)))
    m = len(without)
    found = t_interval(m * whole - (m - 1) * without, level)
    half = (found.high - found.low) / 2
    return Estimate(whole, whole - half, whole + half, level)
