"""Random networks of `stax`, as text that both libraries read: all layers that both have, with all of their options."""

from __future__ import annotations

from typing import Any

import numpy as np

GRIDS = {0: (4,), 1: (5, 2), 2: (4, 3, 2)}
_PLAIN = (
    "Relu()", "LeakyRelu(0.1)", "Abs()", "ABRelu(-0.5, 2.0)", "ABRelu(1.5, 0.0)", "Erf()", "Erf(2.0, 0.5, 0.3)",
    "Gelu()", "Sin(1.0, 0.7)", "Sin(2.0, 0.5, 0.4)", "Cos(1.0, 0.7)", "Cos(1.5, 0.5, 0.3)", "Rbf(0.4)", "Exp(1.0, 0.5)",
    "Gaussian()", "Gaussian(1.5, -0.5)", "ExpNormalized()", "ExpNormalized(0.5, 0.2)", "Monomial(2)", "Monomial(3)",
    "Polynomial([0.1, 1.0, 0.2])", "Sigmoid_like()", "Gabor()", "RectifiedMonomial(1)",
    "RectifiedMonomial(2)", "Identity()",
)  # fmt: skip
_MASK = 7.0


def draw(seed: int) -> dict[str, Any]:
    """One network: its text, the shape of an input, and whether there are masks and graphs."""
    return _Draw(np.random.default_rng(seed)).network(seed)


class _Draw:
    """A network in the making: the grid that is left."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.dimensions = int(rng.integers(3))
        self.grid: list[int] = list(GRIDS[self.dimensions][:-1])
        self.masked = self.dimensions > 0 and rng.random() < 0.25
        self.graphs = False
        self.channels_first = self.dimensions == 2 and rng.random() < 0.15
        self.turned = False  # whether the peer may hold both dimensions of a grid in the other order, after a Conv

    def one(self, values: Any) -> Any:
        """One of some values."""
        return values[int(self.rng.integers(len(values)))]

    def scales(self, *, same: bool = False) -> str:
        """Weights, biases and parametrisation; `same`: of as many channels as any other."""
        b = self.one(["None", "0.0", "0.3"])
        how = self.one(["'ntk'", "'ntk'", "'standard'"])
        scale = self.one([1, 1, 2]) if how == "'standard'" and not same else 1
        return f"W_std={self.one([0.8, 1.3])}, b_std={b}, parameterization={how}, s=({scale}, {scale})"

    def axes(self) -> str:
        """Where batch and channels are, if not as usual."""
        return ", channel_axis=1" if self.channels_first and self.grid else ""

    def affine(self, *, same: bool = False, kinds: tuple[str, ...] = ("Dense", "Conv", "ConvLocal")) -> str:
        """A layer with weights; `same`: that keeps the grid."""
        kind = self.one(kinds) if self.grid else "Dense"
        if kind == "ConvLocal" and (self.masked or self.channels_first):
            kind = "Conv"
        if kind == "Dense":
            return f"stax.Dense(3, {self.scales(same=same)}{self.axes()})"
        window = [int(self.rng.integers(1, min(3, n) + 1)) for n in self.grid]
        strides = [1 if same else int(self.rng.integers(1, 3)) for _ in self.grid]
        if kind == "ConvLocal" and self.turned and len(self.grid) == 2:
            window, strides = [min(window)] * 2, [min(strides)] * 2  # the peer exchanges those of both dimensions
        self.turned = self.turned or kind == "Conv"
        padding = self.one(["SAME", "CIRCULAR"] if same else ["SAME", "CIRCULAR", "VALID"])
        numbers = ""
        if self.channels_first:
            numbers = ", dimension_numbers=('NCHW', 'HWIO', 'NCHW')"
        if not same:
            self.shrink(window, strides, padding)
        scales = self.scales(same=same)
        if kind == "ConvLocal":
            scales = scales.replace("s=(2, 2)", "s=(1, 1)")  # the peer's has as many channels whatever s says
        return f"stax.{kind}(3, {tuple(window)}, {tuple(strides)}, '{padding}', {scales}{numbers})"

    def shrink(self, window: list[int], strides: list[int], padding: str) -> None:
        """The grid after windows."""
        ends = [(n - w) // s + 1 if padding == "VALID" else -(-n // s)
                for n, w, s in zip(self.grid, window, strides, strict=True)]  # fmt: skip
        self.grid = ends

    def curve(self) -> list[str]:
        """A nonlinearity, of a Gaussian field; normalised before, where a kernel is right at variance 1 alone."""
        draw = self.rng.random()
        norm = f"stax.LayerNorm({-1 if not self.axes() else 1}{self.axes()})"
        if draw < 0.06:
            return [norm, f"stax.Hermite({self.one([1, 2, 3])})"]
        return [f"stax.{self.one(_PLAIN)}"]

    def normalised(self) -> list[str]:
        """Normalisation over channels and some of the positions."""
        if self.rng.random() > 0.3:
            return []
        first = 2 if self.channels_first and self.grid else 1
        along = [first + i for i in range(len(self.grid)) if self.rng.random() < 0.5]
        channel = 1 if self.axes() else 1 + len(self.grid)
        return [f"stax.LayerNorm({(*along, channel)}{self.axes()})"]

    def pool(self) -> list[str]:
        """A pool over windows."""
        if not self.grid or self.rng.random() > 0.35:
            return []
        window = [int(self.rng.integers(1, min(2, n) + 1)) for n in self.grid]
        strides = [int(self.rng.integers(1, 3)) for _ in self.grid]
        padding = self.one(["SAME", "VALID"] if self.masked else ["SAME", "CIRCULAR", "VALID"])
        kind = self.one(["AvgPool", "AvgPool", "SumPool"])
        edges = ", normalize_edges=True" if kind == "AvgPool" and self.rng.random() < 0.3 else ""
        self.shrink(window, strides, padding)
        return [f"stax.{kind}({tuple(window)}, {tuple(strides)}, '{padding}'{edges}{self.axes()})"]

    def block(self) -> list[str]:
        """A layer with weights and what follows it."""
        kind = self.rng.random()
        start = [self.affine(), *self.normalised()]
        if kind < 0.15:
            branch = ", ".join([*self.curve(), self.affine(same=True, kinds=("Dense", "Conv"))])
            fan = [f"stax.FanOut(2), stax.parallel(stax.serial({branch}), {self.affine(same=True)})", "stax.FanInSum()"]
            return [*start, *fan, *self.curve(), *self.pool()]
        if kind < 0.22 and not self.channels_first:
            branch = ", ".join([*self.curve(), self.affine(same=True, kinds=("Dense", "Conv"))])
            both = f"stax.parallel(stax.serial({branch}), {self.affine(same=True, kinds=('Dense', 'Conv'))})"
            return [*start, f"stax.FanOut(2), {both}", "stax.FanInConcat(-1)"]
        if kind < 0.30 and self.grid and not self.channels_first:
            linear = self.rng.random() < 0.7
            how = self.one(["SOFTMAX", "RELU", "ABS", "IDENTITY"]) if linear else "IDENTITY"
            bias = self.one(["None", "0.2"])
            attend = f"stax.GlobalSelfAttention(3, 4, 4, 2, {linear}, 0.8, 1.1, 0.9, 1.2, {bias}, '{how}')"
            return [*start, *self.curve(), attend, *self.curve()]
        if kind < 0.36 and self.dimensions == 1 and self.grid == list(GRIDS[1][:-1]):
            self.graphs = True
            return [*start, *self.curve(), "stax.Aggregate()"]
        if kind < 0.46:
            return [*start, *self.curve(), f"stax.Dropout(0.7, mode={self.one(['train', 'test'])!r})", *self.pool()]
        return [*start, *self.curve(), *self.pool()]

    def network(self, seed: int) -> dict[str, Any]:
        """All layers."""
        layers = [part for _ in range(int(self.rng.integers(1, 4))) for part in self.block()]
        if self.grid:
            end = self.one(["Flatten()", "GlobalAvgPool(%s)", "GlobalSumPool(%s)"])
            layers.append(f"stax.{end % self.axes()[2:]}" if "%s" in end else f"stax.{end}")
        self.grid, first = [], self.channels_first
        self.channels_first = False
        if self.rng.random() < 0.3:
            layers += [f"stax.Dense(3, {self.scales()})", *self.curve()]
        layers.append(f"stax.Dense(1, {self.scales()})")
        if any("ExpNormalized" in layer for layer in layers):  # the peer then counts channels that it does not have
            layers = [layer.replace("s=(2, 2)", "s=(1, 1)") for layer in layers]
        shape = GRIDS[self.dimensions]
        shape = (shape[-1], *shape[:-1]) if first else shape
        return {"seed": seed, "net": f"stax.serial({', '.join(layers)})", "shape": shape, "masked": bool(self.masked),
                "channels_first": bool(first), "graphs": self.graphs}  # fmt: skip


def arguments(case: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """(x1, x2, keywords of kernel_fn), the same in both interpreters."""
    rng = np.random.default_rng(10_000 + case["seed"])
    x1, x2 = (rng.standard_normal((3, *case["shape"])) for _ in range(2))
    keywords: dict[str, Any] = {}
    if case["masked"]:
        keywords["mask_constant"] = _MASK
        for x in (x1, x2):
            axis = 1 if case["channels_first"] else -1
            places = list(x.shape)
            places[axis] = 1
            x[np.broadcast_to(rng.random(places) < 0.3, x.shape)] = _MASK
    if case["graphs"]:
        count = case["shape"][0]
        keywords["pattern"] = tuple(rng.standard_normal((3, count, count)) for _ in range(2))
    return x1, x2, keywords
