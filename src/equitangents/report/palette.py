"""The colours of figures and pages: the Okabe-Ito set, safe for colour-blind readers, each with a dark-mode twin.

Figures are drawn with the light colours; a page replaces each by a CSS variable, so that figures follow its mode.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Colour:
    """One colour of the palette: the CSS variable's name, its value on light and on dark ground."""

    name: str
    light: str
    dark: str


INK = Colour("ink", "#1c1f26", "#e8eaf0")
MUTED = Colour("muted", "#667080", "#9aa3b2")
FRAME = Colour("frame", "#c5cad3", "#3c4350")
GRID = Colour("grid", "#e8ebf0", "#262b35")
MEMBER = Colour("member", "#9ba5b5", "#6d7889")
BLUE = Colour("blue", "#0072b2", "#56b0f2")
VERMILLION = Colour("vermillion", "#d55e00", "#ff8f45")
GREEN = Colour("green", "#009e73", "#35c99f")
PURPLE = Colour("purple", "#b5578c", "#e59cc6")
ORANGE = Colour("orange", "#e69f00", "#f7bd45")
SKY = Colour("sky", "#56b4e9", "#8ccff7")

# Five steps of one hue for ordered quantities (widths, members), dark meaning more on light ground and vice versa.
STEPS = (
    Colour("step-1", "#b8d4ea", "#2c4a63"),
    Colour("step-2", "#86b9dd", "#3b6b91"),
    Colour("step-3", "#4b97c8", "#4c8fc0"),
    Colour("step-4", "#1a72ab", "#74b5e4"),
    Colour("step-5", "#0a456f", "#b3dcf9"),
)

# What lies under the drawings, and the grounds of verdicts.
SURFACES = (
    Colour("ground", "#ffffff", "#12151b"),
    Colour("raised", "#f7f8fa", "#191d25"),
    Colour("line", "#e3e6eb", "#2a303b"),
    Colour("good", "#00724f", "#58d6ad"),
    Colour("good-ground", "#e2f4ec", "#12322a"),
    Colour("bad", "#a83a00", "#ff9d62"),
    Colour("bad-ground", "#fdeadd", "#3a2317"),
    Colour("open", "#5c6470", "#b3bac6"),
    Colour("open-ground", "#edeff2", "#272c36"),
)
COLOURS = (INK, MUTED, FRAME, GRID, MEMBER, BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, *STEPS)


def steps(count: int) -> list[str]:
    """`count` light colours of the ordered scale, from faint to strong; the scale is repeated where it runs out."""
    if count <= 1:
        return [STEPS[-1].light] * count
    last = len(STEPS) - 1
    return [STEPS[round(i * last / (count - 1))].light for i in range(count)]
