"""The networks that several studies share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from equitangents import nn
from equitangents.actions import Action
from equitangents.extending import Params
from equitangents.groups import wallpaper


def hidden(layers: int, linear: Callable[[], nn.Layer], phi: type[nn.Layer] = nn.Relu) -> list[nn.Layer]:
    """`layers` layers `linear()`, each followed by `phi`."""
    return [layer for _ in range(layers) for layer in (linear(), phi())]


def mlp(
    width: int,
    hidden_layers: int,
    outputs: int = 1,
    *,
    W_std: float = 2**0.5,
    b_std: float = 0.1,
    phi: type[nn.Layer] = nn.Relu,
    flatten: bool = False,
    output_std: float | None = None,
) -> nn.Sequential:
    """Fully connected layers of `width` with `phi` after each, then `outputs`; `flatten` reads signals.

    `output_std` is `W_std` of the last layer, if it differs.
    """
    first = [nn.Flatten()] if flatten else []
    layers = hidden(hidden_layers, lambda: nn.Dense(width, W_std=W_std, b_std=b_std), phi)
    return nn.Sequential(*first, *layers, nn.Dense(outputs, W_std=W_std if output_std is None else output_std))


def gcnn(
    action: Action, width: int, hidden_layers: int, *, window: Any = "full", W_std: float = 2**0.5, b_std: float = 0.1
) -> nn.Sequential:
    """Lift, group convolutions with `window` on the group, mean over the group."""
    lift = nn.Lift(action, width, "full", W_std=W_std, b_std=b_std)
    layers = hidden(hidden_layers - 1, lambda: nn.GroupConv(width, window, W_std=W_std, b_std=b_std))
    return nn.Sequential(lift, nn.Relu(), *layers, nn.GroupPool(), nn.Dense(1, W_std=W_std))


def cnn(
    width: int, hidden_layers: int, outputs: int = 1, *, pooled: bool = True, W_std: float = 2**0.5, b_std: float = 0.1
) -> nn.Sequential:
    """3×3 convolutions on a torus with ReLU; mean over positions if `pooled`, else all of them to the last layer."""
    layers = hidden(hidden_layers, lambda: nn.Conv(width, (3, 3), padding="circular", W_std=W_std, b_std=b_std))
    return nn.Sequential(*layers, nn.GlobalAvgPool() if pooled else nn.Flatten(), nn.Dense(outputs))


def wallpaper_gcnn(
    side: int,
    width: int,
    hidden_layers: int,
    outputs: int = 1,
    *,
    reflections: bool = False,
    W_std: float = 2**0.5,
    b_std: float = 0.1,
) -> nn.Sequential:
    """Lift, group convolutions with 3×3 windows and all rotations (p4; p4m with `reflections`), mean over the group."""
    G = wallpaper(4, reflections, (side, side))
    lift = nn.Lift(G, width, (3, 3), W_std=W_std, b_std=b_std)
    layers = hidden(hidden_layers - 1, lambda: nn.GroupConv(width, (3, 3), W_std=W_std, b_std=b_std))
    return nn.Sequential(lift, nn.Relu(), *layers, nn.GroupPool(), nn.Dense(outputs))


def same_weights(params: Params) -> Params:
    """Parameters of a `gcnn` with window {e} from an `mlp`'s, computing the orbit mean (1/|G|) Σ_g f(ρ(g)x; θ)."""
    lift, dense, last = params[1], params[3:-1:2], params[-1]
    lifted = {**lift, "w": lift["w"][:, None, :]}
    convolutions = [part for p in dense for part in ({**p, "w": p["w"][None]}, ())]
    return (lifted, (), *convolutions, (), last)
