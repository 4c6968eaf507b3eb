"""What objects show in notebooks: a small table of facts, and kernels as pictures. HTML and SVG made by hand."""

from __future__ import annotations

import html
from collections.abc import Iterable

import numpy as np

_CELLS = 32  # a picture has at most that many rows and columns, means over blocks


def table(title: str, facts: Iterable[tuple[str, object]]) -> str:
    """A table of names and values under a title.

    >>> table("Kernels", [("engine", "cpu")]).count("<tr>")
    1
    """
    left = 'style="text-align:left"'
    cells = ((html.escape(name), html.escape(str(value))) for name, value in facts)
    rows = "".join(f"<tr><th {left}>{name}</th><td {left}>{value}</td></tr>" for name, value in cells)
    return f"<table><caption style='text-align:left'><b>{html.escape(title)}</b></caption>{rows}</table>"


def picture(name: str, matrix: np.ndarray) -> str:
    """A matrix in shades of grey from its smallest entry (white) to its largest (black), with both in the caption."""
    K = np.asarray(matrix, np.float64)
    if K.ndim != 2 or not K.size or not np.isfinite(K).all():
        return ""
    low, high = float(K.min()), float(K.max())
    blocks = _blocks(K)
    shades = np.round(255 * (1 - (blocks - low) / (high - low))) if high > low else np.full(blocks.shape, 255.0)
    side = 160 / max(blocks.shape)
    cells = "".join(
        f'<rect x="{j * side:.2f}" y="{i * side:.2f}" width="{side:.2f}" height="{side:.2f}" '
        f'fill="rgb({int(s)},{int(s)},{int(s)})"/>'
        for i, row in enumerate(shades)
        for j, s in enumerate(row)
    )
    width, height = blocks.shape[1] * side, blocks.shape[0] * side
    caption = html.escape(f"{name}: {low:.3g} (white) to {high:.3g} (black)")
    return (
        f'<figure style="display:inline-block;margin:4px 12px 4px 0"><svg width="{width:.0f}" height="{height:.0f}" '
        f'role="img" aria-label="{caption}">{cells}</svg><figcaption>{caption}</figcaption></figure>'
    )


def _blocks(K: np.ndarray) -> np.ndarray:
    """Means over blocks of rows and columns, at most `_CELLS` of each."""
    for axis in (0, 1):
        edges = np.linspace(0, K.shape[axis], min(_CELLS, K.shape[axis]) + 1).astype(int)
        K = np.add.reduceat(K, edges[:-1], axis=axis) / np.diff(edges).reshape((-1, 1) if axis == 0 else (1, -1))
    return K
