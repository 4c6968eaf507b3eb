"""Folders of small images that tests of commands write."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image


def save(name: str, pixels: np.ndarray, **how: object) -> None:
    """Write an image, and the folders that it is in."""
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(name, **how)


def write_tiles(count: int, inside: Callable[[int], str] = lambda i: "", **columns: Callable[[int], object]) -> None:
    """Dark and bright grey tiles of 4×4 in turn: in folders, `inside` others, and flat with a table of labels."""
    rng, rows = np.random.default_rng(0), [",".join(("file", "label", *columns))]
    for i in range(count):
        name = "bright" if i % 2 else "dark"
        pixels = rng.integers(0, 100, (4, 4)).astype(np.uint8) + np.uint8(120 * (i % 2))
        for path in (f"tiles/{name}/{inside(i)}{i:02}.png", f"flat/{i:02}.png"):
            save(path, pixels)
        rows.append(",".join(map(str, (f"{i:02}.png", name, *(of(i) for of in columns.values())))))
    Path("labels.csv").write_text("\n".join(rows) + "\n")
