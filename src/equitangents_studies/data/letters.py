"""The letters A to Z in the fonts that ship with matplotlib: 26 classes, one image a font, no download."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from equitangents.extending import check_whole
from equitangents_studies.data.images import resize

_FONTS = (
    "DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique", "DejaVuSansMono",
    "DejaVuSansMono-Bold", "DejaVuSansMono-Oblique", "DejaVuSansMono-BoldOblique", "DejaVuSerif", "DejaVuSerif-Bold",
    "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic", "STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic",
    "STIXGeneralBolIta", "cmb10", "cmr10", "cmss10", "cmti10", "cmtt10",
)  # fmt: skip
_DRAWN = 64  # pixels a side, before averaging down


def letters(pixels: int = 16) -> tuple[Float[np.ndarray, "n height width 1"], Int[np.ndarray, " n"]]:
    """(images in [0, 1], labels 0 to 25) of 26 letters in 21 fonts, font by font, centred, of one height.

    >>> x, y = letters()
    >>> x.shape, y[:3].tolist()
    ((546, 16, 16, 1), [0, 1, 2])
    """
    import matplotlib
    from matplotlib.ft2font import FT2Font

    side = check_whole("pixels", pixels, 2)
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    images = []
    for name in _FONTS:
        font = FT2Font(str(folder / f"{name}.ttf"))
        font.set_size(44, 72)
        for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ":
            font.clear()
            font.set_text(letter, 0.0)
            font.draw_glyphs_to_bitmap(antialiased=True)
            images.append(_centred(np.asarray(font.get_image(), np.float32) / 255))
    x = resize(np.stack(images)[..., None], (side, side)).astype(np.float32)
    return x, np.tile(np.arange(26), len(_FONTS))


def _centred(glyph: np.ndarray) -> np.ndarray:
    """The glyph in the middle of a square of `_DRAWN` pixels."""
    ink = np.argwhere(glyph > 0)
    (top, left), (bottom, right) = ink.min(axis=0), ink.max(axis=0) + 1
    glyph = glyph[top:bottom, left:right][:_DRAWN, :_DRAWN]
    square = np.zeros((_DRAWN, _DRAWN), np.float32)
    i, j = ((_DRAWN - n) // 2 for n in glyph.shape)
    square[i : i + glyph.shape[0], j : j + glyph.shape[1]] = glyph
    return square
