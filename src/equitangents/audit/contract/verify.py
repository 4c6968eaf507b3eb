"""Whether a contract's maps are actions: ρ(e) = 1 and ρ(g)ρ(h) = ρ(g·h), exactly or as well as interpolation allows."""

from __future__ import annotations

import numpy as np

from equitangents.audit.contract.contract import Contract
from equitangents.audit.contract.leaf_actions import Layout, LeafAction, from_last, spatial
from equitangents.audit.contract.trees import Inputs
from equitangents.errors import NotAnActionError

PAIRS = 64
RESAMPLED = 0.2  # relative deviation that interpolation may cause on the smooth probe


def verify(contract: Contract, x: Inputs, seed: int) -> None:
    """Raise NotAnActionError with the witness (g, h) if some input's action is none.

    Exact actions are held to rounding on the first inputs. Resampled ones are held to 20 % on a smooth image, which
    any sensible interpolation keeps; on the data themselves interpolation can lose everything.
    """
    for name, action, leaf in zip(x.names, contract.inputs, x.leaves, strict=True):
        if action is not None:
            resampled_images = not action.exact and leaf.ndim == 4
            probe = smooth_images(leaf.shape, action.layout) if resampled_images else leaf[:2]
            check_products(contract, action, name, probe, seed)


def check_products(contract: Contract, action: LeafAction, name: str, x: np.ndarray, seed: int) -> None:
    """Raise NotAnActionError unless products are respected on x."""
    rng = np.random.default_rng(seed)
    scale = float(np.linalg.norm(_wide(x))) or 1.0
    allowed = RESAMPLED if not action.exact else 1e-8 if x.dtype == np.float64 else 1e-4
    group = contract.group
    off = _distance(action.act(group.identity, x), x) / scale
    if not off <= allowed:
        raise NotAnActionError(f"{action.name} on {name}: the identity changes it, by {off:.1e} of its size")
    drawn = group.draw(8, rng)
    pairs = [(g, h) for g in drawn for h in drawn][:PAIRS]
    named = lambda g: contract.label(g).removeprefix("element ")
    for g, h in pairs:
        off = _distance(action.act(g, action.act(h, x)), action.act(group.compose(g, h), x)) / scale
        if not off <= allowed:
            raise NotAnActionError(
                f"{action.name} on {name} is not an action: ρ(g)ρ(h) and ρ(g·h) differ by {off:.1e} of its size, "
                f"g = {named(g)}, h = {named(h)} (up to {allowed:.0e} is allowed)"
            )


def smooth_images(shape: tuple[int, ...], layout: Layout | None) -> np.ndarray:
    """Two blobs off the centre, well inside an image of this shape; turns of images are probed at 16×16 at least."""
    H, W = spatial(shape, layout)[:2]
    if layout is not None:
        H, W = max(H, 16), max(W, 16)
    i, j = np.indices((H, W))
    y, x, size = i - (H - 1) / 2, j - (W - 1) / 2, min(H, W)
    blob = lambda a, b: np.exp(-((y - a * size) ** 2 + (x - b * size) ** 2) / (2 * (size / 9) ** 2))
    image = blob(0.12, 0.05) - 0.5 * blob(-0.05, -0.12)
    channels = shape[1] if layout == "channels_first" else shape[-1]
    batch = np.broadcast_to(image[None, :, :, None], (1, H, W, channels))
    return np.ascontiguousarray(from_last(batch, layout)).astype(np.float64)


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(_wide(a) - _wide(b)))


def _wide(a: np.ndarray) -> np.ndarray:
    return np.asarray(a, np.complex128 if np.asarray(a).dtype.kind == "c" else np.float64)
