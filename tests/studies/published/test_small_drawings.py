"""Drawings are made smaller without a change that anybody sees."""

from __future__ import annotations

import base64
import io
import re

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from tools.results import small

COLOURS = ("grey", "viridis")


def drawn():
    """A drawing of matplotlib with lines, markers, text and pictures, as it writes it."""
    figure, axes = plt.subplots(1, 3, figsize=(6, 2))
    axes[0].plot(np.arange(50), np.sin(np.arange(50.0)), marker="o", label="sine")
    axes[0].legend()
    for axis, colours in zip(axes[1:], COLOURS, strict=True):
        axis.imshow(np.random.default_rng(0).uniform(size=(9, 9)), cmap=colours)
    stream = io.StringIO()
    with plt.rc_context({"svg.fonttype": "none"}):
        figure.savefig(stream, format="svg")
    plt.close(figure)
    return stream.getvalue()


def pixels(svg):
    encoded = re.findall(r"data:image/png;base64,([^\"]*)", svg)
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(one))).convert("RGBA")) for one in encoded]


def corners(path):
    """The points of a path of lines, absolute or relative."""
    points, at = [], np.zeros(2)
    for letter, numbers in re.findall(r"([MLl])([^A-Za-z]*)", path):
        for step in np.array(re.findall(r"-?(?:\d+\.?\d*|\.\d+)", numbers), float).reshape(-1, 2):
            at = step if letter in "ML" else at + step
            points.append(at)
    return np.array(points)


def test_it_is_smaller_with_the_same_pictures_text_and_lines():
    before = drawn()
    after = small.drawing(before)
    assert len(after) < len(before) / 2
    assert re.findall(r"<text[^>]*>([^<]*)", after) == re.findall(r"<text[^>]*>([^<]*)", before)
    assert len(pixels(after)) == len(COLOURS)
    for one, other in zip(pixels(before), pixels(after), strict=True):
        np.testing.assert_array_equal(one, other)
    longest = lambda svg: max(re.findall(r"\sd=\"([^\"]*)\"", svg), key=lambda path: len(re.findall(r"\d+", path)))
    line, rounded = corners(longest(before)), corners(longest(after))
    assert len(line) == 50
    assert np.abs(line - rounded).max() <= 0.05 + 1e-9  # errors do not add up along a line


def test_every_name_that_is_referred_to_is_there_once_and_what_is_opened_is_closed():
    after = small.drawing(drawn())
    used = set(re.findall(r"(?:href=\"|url\()#([\w-]+)", after))
    ids = re.findall(r"\sid=\"([^\"]*)\"", after)
    assert used
    assert used <= set(ids)
    assert len(ids) == len(set(ids))
    assert re.findall(r"#[0-9a-f]{6}", after)  # colours are no names
    for tag in ("g", "style", "svg", "defs"):
        assert len(re.findall(rf"<{tag}(?=[ >])[^>]*[^/]>|<{tag}>", after)) == after.count(f"</{tag}>")
    dot = '<svg><path d="M 1 1 L 1.01 1" style="stroke-linecap: round"/></svg>'
    assert ' d="M1 1l0 0"' in small.drawing(dot), "the ends of a line of no length may be round"


def test_pixels_of_a_large_figure_have_a_table_of_colours():
    stream = io.BytesIO()
    Image.fromarray(np.full((40, 40, 4), 255, np.uint8)).save(stream, "png")
    with Image.open(io.BytesIO(small.picture(stream.getvalue()))) as smaller:
        assert smaller.mode == "P"
        assert np.asarray(smaller.convert("RGB")).min() == 255
