"""How often `output_action="find"` finds a rule where there is none, and misses or misnames one that was planted.

Random networks without a rule, and models whose outputs move by a known one, exactly or off by 10 % of the spread
between inputs. A miss is a rule that was not found, or one of another kind than the planted. `python -m benchmarks
audit_rules` prints the lines of docs/benchmarks.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.bench_audit_kinds import MODELS, TURN, Array, Kind, clouds, harmonics, images, plant
from benchmarks.totals import totals

FREE = 50  # networks without a rule, of each kind
OFF = 0.1


@dataclass(frozen=True)
class Planted:
    """A rule: its name, the kinds of `RuleResult` that name it rightly, and models that move by it."""

    name: str
    right: tuple[str, ...]
    kind: Callable[[np.random.Generator], Kind]


def network(rng: np.random.Generator, inputs: int, outputs: int) -> Callable[[Array], Array]:
    """Two random layers on flattened inputs."""
    v, w = rng.normal(size=(inputs, 32)) / np.sqrt(inputs), rng.normal(size=(32, outputs)) / np.sqrt(32)
    return lambda x: np.tanh(2 * x.reshape(len(x), -1) @ v) @ w


def around(rng: np.random.Generator) -> Callable[[Array], Array]:
    """Four numbers that a quarter turn of the image moves on by one: a network's answers to all four turns."""
    net = network(rng, 36, 1)
    return lambda x: np.concatenate([net(np.rot90(x, -k, (1, 2))) for k in range(4)], axis=1)


def _turned(x: Array) -> Array:
    return np.rot90(x, 1, (1, 2))


def _of_images(even: Callable[[Array], Array], act: Callable[[Array], Array]) -> Kind:
    return Kind("", "C4", images, even, _turned, act)


def permuted(rng: np.random.Generator) -> Kind:
    """Classes that change places, in an order of their own."""
    net, order = around(rng), rng.permutation(4)
    return _of_images(lambda x: net(x)[:, order], lambda y: np.roll(y[:, np.argsort(order)], 1, axis=1)[:, order])


def mixed(rng: np.random.Generator) -> Kind:
    """The same four numbers in a basis of their own."""
    net, Q = around(rng), np.linalg.qr(rng.normal(size=(4, 4)))[0]
    return _of_images(lambda x: net(x) @ Q, lambda y: np.roll(y @ Q.T, 1, axis=1) @ Q)


def signed(rng: np.random.Generator) -> Kind:
    """One number whose sign changes under a quarter turn."""
    net = around(rng)
    return _of_images(lambda x: net(x) @ np.array([[1.0], [-1], [1], [-1]]), lambda y: -y)


def flow(rng: np.random.Generator) -> Kind:
    """A vector in the plane, x to the right and y up."""
    net = around(rng)
    return _of_images(lambda x: net(x) @ np.array([[1.0, 0], [0, 1], [-1, 0], [0, -1]]),
                      lambda y: np.stack([-y[:, 1], y[:, 0]], axis=1))  # fmt: skip


def maps(rng: np.random.Generator) -> Kind:
    """An image of the same size."""
    a, b = rng.normal(size=2)
    near = lambda v: sum(np.roll(v, s, axis) for s in (1, -1) for axis in (1, 2))
    return _of_images(lambda x: np.tanh(a * x + b * near(x)), _turned)


def harmonic(rng: np.random.Generator) -> Kind:
    """Irreps 1x0e+1x1o+1x2e of a cloud, side by side."""
    a, b = rng.normal(size=2)

    def even(p: Array) -> Array:
        r = np.linalg.norm(p, axis=-1)
        vector = (p * np.exp(-((r - a) ** 2))[..., None]).sum(1)
        return np.concatenate([np.tanh(b * r).sum(1, keepdims=True), vector, harmonics(p[:, 0]) / 2], axis=1)

    v = np.random.default_rng(2).normal(size=(9, 3))
    D = np.linalg.lstsq(harmonics(v), harmonics(v @ TURN.T), rcond=None)[0]
    act = lambda y: np.concatenate([y[:, :1], y[:, 1:4] @ TURN.T, y[:, 4:] @ D], axis=1)
    return Kind("", "SO3", clouds, even, lambda p: p @ TURN.T, act, kinds="vectors")


PLANTED = (
    Planted("classes that change places", ("permutation",), permuted),
    Planted("a matrix on the channels", ("orthogonal",), mixed),
    Planted("a sign that changes", ("orthogonal",), signed),
    Planted("vectors", ("kind",), flow),
    Planted("images", ("kind",), maps),
    Planted("irreps 1x0e+1x1o+1x2e", ("kind",), harmonic),
)
FREE_OF = (("C4", images, 36), ("D4", images, 36), ("SO3", clouds, 15))
"""Groups and inputs of networks without a rule."""


def sought(f: Any, group: str, x: Array, kinds: Any, seed: int) -> Any:
    """What "find" says of the output."""
    from equitangents.audit import audit

    quiet: dict[str, Any] = {"off_data": False, "data_test": None, "layers": False, "resamples": 50}
    few = 8 if group == "SO3" else None
    return audit(f, group, x, "find", inputs=kinds, elements=few, seed=seed, **quiet).rules[0]


def free(group: str, inputs: Callable[..., Array], numbers: int, seed: int) -> bool:
    """Whether a rule is found for one network that has none."""
    rng = np.random.default_rng([seed, numbers, len(group)])
    f, x = network(rng, numbers, int(rng.choice([1, 2, 3, 4, 6, 9]))), inputs(rng, 40)
    return bool(sought(f, group, x, "vectors" if group == "SO3" else None, seed).found)


@dataclass(frozen=True)
class Line:
    """One line of the table: how many models of one kind were said to follow a rule, the planted one where there is."""

    name: str
    planted: bool
    found: int
    models: int

    @property
    def wrong(self) -> int:
        """False alarms of models without a rule, misses of others."""
        return self.models - self.found if self.planted else self.found


def lines(models: int = MODELS, without: int = FREE) -> list[Line]:
    """False alarms on networks without a rule, and what was found of every planted one."""
    found = []
    for group, inputs, numbers in FREE_OF:
        alarms = sum(free(group, inputs, numbers, seed) for seed in range(without))
        found.append(Line(f"no rule, {group}", False, alarms, without))
    for number, planted in enumerate(PLANTED):
        for off in (0.0, OFF):
            right = sum(_is_right(planted, off, [number, m]) for m in range(models))
            said = "exact" if off == 0 else f"off by {100 * off:g} %"
            found.append(Line(f"{planted.name}, {said}", True, right, models))
    return found


def _is_right(planted: Planted, off: float, seed: list[int]) -> bool:
    rng = np.random.default_rng(seed)
    kind = planted.kind(rng)
    f, x = plant(kind, off)(rng)
    return sought(f, kind.group, x, kind.kinds, seed[1]).kind in planted.right


def table(found: list[Line]) -> str:
    """Every line, and the totals with exact binomial intervals."""
    rows = ["| outputs | a rule was found | false alarms | missed or misnamed |", "|---|---|---|---|"]
    for one in found:
        cells = ("–", str(one.wrong)) if one.planted else (str(one.wrong), "–")
        rows.append(f"| {one.name} | {one.found} of {one.models} | {' | '.join(cells)} |")
    alarms = [(one.wrong, one.models) for one in found if not one.planted]
    missed = [(one.wrong, one.models) for one in found if one.planted]
    return "\n".join(rows) + "\n\n" + totals(("false alarms", alarms), ("missed or misnamed", missed))


def main() -> None:
    """The table, and the totals."""
    print(table(lines()))
