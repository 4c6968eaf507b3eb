"""Coupled initialisations: weights that make of moved data what the given ones make of the data as they are.

The first layer is y = Σ_i w_i x_i. If τ keeps apart what different weights read, w' = τw gives Σ_i w'_i (τx)_i = y for
every x. A Gaussian w' has the law of w for every orthogonal τ, so the network trained from w' on moved data is one that
the algorithm could have drawn; gradients turn along, so the two agree at every step of training, to rounding.

Dense after Flatten   any τ
LocallyConnected      a matrix for the channels of every position
Conv                  one matrix for the channels of all positions
"""

from __future__ import annotations

from typing import cast

import numpy as np

from equitangents.errors import NetworkError
from equitangents.extending import FiniteNetwork, Params
from equitangents.nn import Dense, Layer, LocallyConnected, Sequential
from equitangents_studies.systems.architectures import Reparametrised, first_linear
from equitangents_studies.systems.data_groups import DataGroup
from equitangents_studies.systems.transformations import ChannelRotations, Transformation, like


def why_uncoupled(net: object, group: DataGroup) -> str | None:
    """Why there is no coupled initialisation of this network for all elements of the group, or None if there is one.

    >>> from equitangents_studies.systems import architecture
    >>> from equitangents_studies.systems.data_groups import data_group
    >>> why_uncoupled(architecture("VEC", 1), data_group("O(3)^d", (4, 4, 3)))
    'Conv reads all positions by the same weights'
    >>> why_uncoupled(architecture("LCN", 1), data_group("O(3)^d", (4, 4, 3)))
    """
    if group.letter == "I":
        return None
    if not isinstance(net, Sequential | Reparametrised):
        return f"{type(net).__name__} is no Sequential network"
    i = first_linear(net)
    layer, flat = net.layers[i], i > 0
    if isinstance(net, Reparametrised) and net.first_layer == "uniform" and group.letter != "P":
        return "rotated uniform weights are not uniform"
    return _why_not_read_apart(layer, flat, group)


def _why_not_read_apart(layer: Layer, flat: bool, group: DataGroup) -> str | None:
    if isinstance(layer, Dense) and flat:
        return None
    if group.reach == "same" or group.positions == 1:
        return None
    if isinstance(layer, LocallyConnected):
        return None if group.reach == "own" else "LocallyConnected reads each position by weights of its own"
    return f"{type(layer).__name__} reads all positions by the same weights"


def coupled(net: FiniteNetwork, params: Params, tau: Transformation) -> Params:
    """Parameters with which `net` makes of τx what it makes of x with `params`, for every x.

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
    layered = cast(Sequential | Reparametrised, net)
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
    return np.moveaxis(tau.moved(columns.reshape(-1, *tau.shape)).reshape(columns.shape), -1, -2)


def _by_channel(w: np.ndarray, tau: Transformation) -> np.ndarray:
    """Every tap of w (…, |S|·c, n) moved by the one matrix of τ."""
    assert isinstance(tau, ChannelRotations)
    c = tau.group.channels
    taps = w.reshape(*w.shape[:-2], -1, c, w.shape[-1])
    return np.einsum("ij,...tjn->...tin", tau.matrices[0], taps).reshape(w.shape)


def _by_position(w: np.ndarray, layer: LocallyConnected, tau: Transformation) -> np.ndarray:
    """Every tap of w (…, P, |S|·c, n) moved by the matrix of the position that it reads; outside of the grid, left."""
    assert isinstance(tau, ChannelRotations)
    c, positions = tau.group.channels, tau.group.positions
    reads = layer.positions_read(tau.shape[:-1])
    matrices = np.broadcast_to(tau.matrices, (positions, c, c))
    matrices = np.concatenate([matrices, np.eye(c)[None]])[reads]  # the last for −1
    taps = w.reshape(*w.shape[:-2], reads.shape[1], c, w.shape[-1])
    return np.einsum("ptij,...ptjn->...ptin", matrices, taps).reshape(w.shape)
