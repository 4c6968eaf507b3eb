"""The six architectures of the source, of any depth and width, for signals on grids of one to three dimensions.

FCN   Flatten, (Dense, ReLU) × depth, Dense
LCN   (LocallyConnected 3×3, ReLU) × depth, Flatten, Dense
VEC   (Conv 3×3, ReLU) × depth, Flatten, Dense
GAP   (Conv 3×3, ReLU) × depth, GlobalAvgPool, Dense
LAPk  (Conv 3×3, ReLU) × depth, AvgPool k×k, Flatten, Dense

Circular padding; every layer, the readout too, has σ_w² = 2 and σ_b² = 0.01. Source: Xiao & Pennington 2022, arXiv
2207.04612. It states neither the window nor LAP's width: 3 and that of VEC are this library's choice.

Layers may have another `parametrisation` ("ntk" or "standard"). `UniformFirst` draws the first layer's weights
uniformly from [−√3, √3], of variance 1, in place of a Gaussian.

Coupled initialisation: parameters θ′ with f(θ′, τx) = f(θ, x). The first layer is y = Σ_i w_i x_i. If τ does not mix
coordinates that different weights read, w' = τw gives Σ_i w'_i (τx)_i = y for every x. A Gaussian w' has the law of w
for every orthogonal τ, so the network trained from w' on moved data is one that the algorithm could have drawn;
gradients rotate in the same way, so the two agree at every step of training, to rounding. There is one for

Dense after Flatten   any τ
LocallyConnected      a matrix for the channels of every position
Conv                  one matrix for the channels of all positions
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any, cast, final

import jax
import numpy as np

from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError
from equitangents.extending import ArrayLike, DType, FiniteNetwork, Params, check_choice, check_whole, precision
from equitangents.nn import AvgPool, Conv, Dense, Flatten, GlobalAvgPool, Layer, LocallyConnected, Relu, Sequential
from equitangents_studies.systems.transformations import DataGroup, Transformation, like

ARCHITECTURES = ("FCN", "LCN", "VEC", "GAP", "LAP4", "LAP8")
_SOME = "FCN, LCN, VEC, GAP, LAP2, LAP4, …"
WIDTHS = {"FCN": 1024, "LCN": 32, "VEC": 128, "GAP": 128, "LAP": 128}
"""The source's widths; LAP's is this library's choice."""

W_STD, B_STD, WINDOW = 2**0.5, 0.1, 3
_BY_LAYERS: dict[tuple[type | None, tuple[Layer, ...]], str] = {  # hidden layers with weights, then others but ReLU
    (Dense, (Flatten(),)): "FCN",
    (LocallyConnected, (Flatten(),)): "LCN",
    (Conv, (Flatten(),)): "VEC",
    (Conv, (GlobalAvgPool(),)): "GAP",
}
_LAP = re.compile(r"LAP([1-9]\d*)")
LINEAR = (Conv, Dense, LocallyConnected)
"""Layers whose weights are (…, fan-in, channels)."""
_TAG = 0x756E_6966  # folded into the key, so that the uniform weights are drawn nowhere else


def architecture(
    name: str,
    depth: int = 8,
    width: int | None = None,
    outputs: int = 1,
    *,
    parametrisation: str = "ntk",
) -> Sequential:
    """One of FCN, LCN, VEC, GAP, LAP2, LAP4, … (LAPk pools over k × k for any k) with `depth` hidden layers.

    Args:
        name: which.
        depth: hidden layers.
        width: channels of each of them; None: the source's, 1024 / 32 / 128 / 128 for FCN / LCN / VEC / GAP, and 128.
        outputs: of the readout; a `System` sets it to the number of classes itself.
        parametrisation: of every layer, "ntk" or "standard".

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(3, 4, 4, 3))
    >>> architecture("VEC", depth=2).kernel(x).ntk.shape
    (3, 3)
    """
    if not isinstance(name, str):
        raise InvalidTypeError("name", name, f"one of {_SOME}")
    check_whole("depth", depth, 1)
    check_whole("outputs", outputs, 1)
    pooled = _LAP.fullmatch(name)
    if name not in ARCHITECTURES and not pooled:
        raise InvalidArgumentError("name", name, f"one of {_SOME}")
    check_choice("parametrisation", parametrisation, ("ntk", "standard"))
    width = WIDTHS[name[:3]] if width is None else check_whole("width", width, 1)
    std: dict[str, Any] = {"W_std": W_STD, "b_std": B_STD, "parametrisation": parametrisation}
    if name == "FCN":
        layers: list[Layer] = [Flatten(), *[Dense(width, **std), Relu()] * depth]
    else:
        kind = LocallyConnected if name == "LCN" else Conv
        layers = [kind(width, WINDOW, **std), Relu()] * depth
        layers += (
            [GlobalAvgPool()] if name == "GAP" else [AvgPool(int(pooled[1])), Flatten()] if pooled else [Flatten()]
        )
    return Sequential(*layers, Dense(outputs, **std))


@final
@dataclass(frozen=True)
class UniformFirst:
    """`net` with uniform instead of Gaussian weights in its first layer, of equal variance.

    Hashable, with init and apply.
    """

    net: Sequential

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers, first to last."""
        return self.net.layers

    def init(self, key: jax.Array, input_shape: tuple[int, ...], dtype: DType = "float32") -> Params:
        """Trainable parameters, one entry per layer."""
        params, i = self.net.init(key, input_shape, dtype), first_linear(self.net)
        if getattr(self.net.layers[i], "parametrisation", "ntk") != "ntk":
            raise NetworkError("net", self.net.layers[i], "the NTK parametrisation", verb="begins with")
        with precision.scope(dtype):
            shape, end = params[i]["w"].shape, math.sqrt(3)
            draw = jax.random.uniform(jax.random.fold_in(key, _TAG), shape, dtype, -end, end)
        return (*params[:i], params[i] | {"w": draw}, *params[i + 1 :])

    def apply(self, params: Params, x: ArrayLike) -> jax.Array:
        """Outputs (N, outputs) for x (N, *positions, channels)."""
        return self.net.apply(params, x)


def first_linear(net: Sequential | UniformFirst) -> int:
    """Index of the first layer with weights."""
    for i, layer in enumerate(net.layers):
        if isinstance(layer, LINEAR):
            return i
        if not isinstance(layer, Flatten):
            break
    raise NetworkError("net", net, "Conv, LocallyConnected or Dense as the first layer")


def with_outputs(net: object, outputs: int) -> Any:
    """The network with a Dense readout of `outputs` outputs; a network without Dense readout must already have them.

    >>> with_outputs(architecture("FCN", depth=1, width=4), 10).layers[-1].channels
    10
    """
    if isinstance(net, UniformFirst):
        return UniformFirst(with_outputs(net.net, outputs))
    if not isinstance(net, Sequential):
        return net
    last = net.layers[-1]
    if not isinstance(last, Dense):
        raise NetworkError("net", net, "Dense as the last layer, a readout")
    return Sequential(*net.layers[:-1], replace(last, channels=outputs))


def kind_of(net: object) -> str:
    """Name of a network's architecture, or "network" for others.

    >>> kind_of(architecture("LAP4", depth=2))
    'LAP4'
    """
    if not isinstance(net, Sequential | UniformFirst):
        return "network"
    layers = net.layers
    weighted = [layer for layer in layers[:-1] if not isinstance(layer, Relu | Flatten | GlobalAvgPool | AvgPool)]
    rest = tuple(layer for layer in layers if not isinstance(layer, Relu) and layer not in weighted)[:-1]
    kinds = {type(layer) for layer in weighted}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is Conv and len(rest) == 2 and isinstance(rest[0], AvgPool) and rest[1] == Flatten():
        return f"LAP{rest[0].window}"
    if kind is Dense and layers[0] != Flatten():
        return "network"
    return _BY_LAYERS.get((kind, rest), "network")


def why_uncoupled(net: object, group: DataGroup) -> str | None:
    """Why there is no coupled initialisation of this network for all elements of the group, or None if there is one.

    >>> from equitangents_studies.systems import architecture
    >>> from equitangents_studies.systems.transformations import data_group
    >>> why_uncoupled(architecture("VEC", 1), data_group("O(3)^d", (4, 4, 3)))
    'Conv reads all positions by the same weights'
    >>> why_uncoupled(architecture("LCN", 1), data_group("O(3)^d", (4, 4, 3)))
    """
    if group.letter == "I":
        return None
    if not isinstance(net, Sequential | UniformFirst):
        return f"{type(net).__name__} is no Sequential network"
    i = first_linear(net)
    layer = net.layers[i]
    if isinstance(net, UniformFirst) and group.letter != "P":
        return "rotated uniform weights are not uniform"
    if (isinstance(layer, Dense) and i > 0) or group.reach == "same" or group.positions == 1:
        return None
    if isinstance(layer, LocallyConnected):
        return None if group.reach == "own" else "LocallyConnected reads each position by weights of its own"
    return f"{type(layer).__name__} reads all positions by the same weights"


def coupled(net: FiniteNetwork, params: Params, tau: Transformation) -> Params:
    """θ′ with f(θ′, τx) = f(θ, x) for every x, where θ is `params` and f is `net`.

    `params` may be stacked over members, one leading axis. Raises NetworkError where `why_uncoupled` has a reason.

    >>> import jax, numpy as np
    >>> from equitangents_studies.systems import architecture, transformation
    >>> net, tau = architecture("LCN", 2, 4), transformation("O(3)^d", (4, 4, 3))
    >>> params = net.init(jax.random.key(0), (4, 4, 3))
    >>> x = np.random.default_rng(0).normal(size=(5, 4, 4, 3)).astype(np.float32)
    >>> bool(np.allclose(net.apply(coupled(net, params, tau), tau(x)), net.apply(params, x), atol=1e-5))
    True
    """
    reason = why_uncoupled(net, tau.group)
    if reason is not None:
        raise NetworkError("tau", tau.group, "a group with a coupled initialisation", reason)
    if tau.group.letter == "I":
        return params
    layered = cast(Sequential | UniformFirst, net)
    i = first_linear(layered)
    layer, w = layered.layers[i], params[i]["w"]
    given = np.asarray(w, np.float64)
    if isinstance(layer, Dense) and i > 0:
        moved = _by_signals(given, tau)
    elif isinstance(layer, LocallyConnected):
        moved = _by_position(given, layer, tau)
    else:
        moved = _by_channel(given, tau)
    return (*params[:i], params[i] | {"w": like(w, moved)}, *params[i + 1 :])


def _by_signals(w: np.ndarray, tau: Transformation) -> np.ndarray:
    """Columns of w (…, cd, n) moved as signals."""
    columns = np.moveaxis(w, -1, -2)
    return np.moveaxis(tau(columns.reshape(-1, *tau.shape)).reshape(columns.shape), -1, -2)


def _by_channel(w: np.ndarray, tau: Transformation) -> np.ndarray:
    """Every tap of w (…, |S|·c, n) moved by the one matrix of τ."""
    c = tau.group.channels
    taps = w.reshape(*w.shape[:-2], -1, c, w.shape[-1])
    return np.einsum("ij,...tjn->...tin", tau.values[0], taps).reshape(w.shape)


def _by_position(w: np.ndarray, layer: LocallyConnected, tau: Transformation) -> np.ndarray:
    """Every tap of w (…, P, |S|·c, n) moved by the matrix of its position; taps outside of the grid are unchanged."""
    c, positions = tau.group.channels, tau.group.positions
    reads = layer.positions_read(tau.shape[:-1])
    matrices = np.broadcast_to(tau.values, (positions, c, c))
    matrices = np.concatenate([matrices, np.eye(c)[None]])[reads]  # the last for −1
    taps = w.reshape(*w.shape[:-2], reads.shape[1], c, w.shape[-1])
    return np.einsum("ptij,...ptjn->...ptin", matrices, taps).reshape(w.shape)
