"""Wallpaper and translation groups against explicit motions of points, computed one coordinate at a time."""

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equitangents import groups
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError


@st.composite
def wallpapers(draw):
    rotations = draw(st.sampled_from([1, 2, 4]))
    H = draw(st.integers(1, 5))
    W = H if rotations == 4 else draw(st.integers(1, 5))
    return groups.wallpaper(rotations, draw(st.booleans()), (H, W))


def literal_image(G, g, i, j):
    """g·(i, j) from the description of g, one turn and one reflection at a time."""
    rotation, reflection, (ti, tj) = G.element(g)
    for _ in range(reflection):
        i, j = i, -j
    for _ in range(rotation * (4 // G.rotations)):
        i, j = -j, i
    return (i + ti) % G.shape[0], (j + tj) % G.shape[1]


class TestWallpaper:
    @given(wallpapers(), st.data())
    def test_grid_table_moves_points(self, G, data):
        g = data.draw(st.integers(0, G.order - 1))
        H, W = G.shape
        for i, j in itertools.product(range(H), range(W)):
            u, v = literal_image(G, g, i, j)
            assert G.grid_table[g, i * W + j] == u * W + v
        assert np.array_equal(G.grid_rows(g), G.grid_table[g])

    @given(wallpapers(), st.data())
    def test_product_is_second_first(self, G, data):
        a, b = data.draw(st.integers(0, G.order - 1)), data.draw(st.integers(0, G.order - 1))
        assert np.array_equal(G.grid_table[a][G.grid_table[b]], G.grid_table[G.compose(a, b)])

    @given(wallpapers())
    def test_is_a_group_in_its_own_numbering(self, G):
        checked = groups.from_table(G.table)
        assert checked.identity == G.identity == 0
        assert np.array_equal(checked.inverses, G.inverses)

    @given(wallpapers(), st.data())
    def test_numbering(self, G, data):
        g = data.draw(st.integers(0, G.order - 1))
        rotation, reflection, (ti, tj) = G.element(g)
        H, W = G.shape
        point = reflection * G.rotations + rotation
        assert g == point * H * W + ti * W + tj
        assert G.index(rotation, reflection, (ti - H, tj + 2 * W)) == g
        P = G.point_matrices[point]
        for x in np.ndindex(H, W):
            assert tuple((P @ x + (ti, tj)) % G.shape) == literal_image(G, g, *x)

    def test_turns_as_rot90_does(self):
        # a quarter turn about (0, 0) of an odd torus is the turn about the centre of the image with (0, 0) centred
        G = groups.wallpaper(4, False, (5, 5))
        image = np.arange(25).reshape(5, 5)
        turned = np.empty(25, int)
        turned[G.grid_table[G.index(1, 0, (0, 0))]] = image.ravel()
        centred = np.roll(turned.reshape(5, 5), (2, 2), axis=(0, 1))
        assert np.array_equal(centred, np.rot90(np.roll(image, (2, 2), axis=(0, 1))))

    def test_ten_thousand_elements_without_a_table(self):
        start = time.process_time()
        G = groups.wallpaper(4, False, (50, 50))
        assert G.order == 10_000
        a, b = np.random.default_rng(0).integers(0, 10_000, (2, 1000))
        assert np.array_equal(G.inverse(G.compose(a, b)), G.compose(G.inverse(b), G.inverse(a)))
        assert len(G.generators) < 6
        assert hash(G) == hash(groups.wallpaper(4, False, (50, 50)))
        assert "table" not in vars(G)
        assert time.process_time() - start < 2

    def test_refuses(self):
        with pytest.raises(ShapeError, match=r"shape is \(4, 6\); quarter turns"):
            groups.wallpaper(4, False, (4, 6))
        with pytest.raises(InvalidArgumentError, match="rotations is 3; expected 1, 2 or 4"):
            groups.wallpaper(3, False, (4, 4))
        with pytest.raises(InvalidArgumentError, match="reflections is 2"):
            groups.wallpaper(4, 2, (4, 4))
        with pytest.raises(ShapeError, match="expected two side lengths"):
            groups.wallpaper(4, False, (4, 4, 4))
        with pytest.raises(InvalidArgumentError, match=r"shape\[1\] is 0"):
            groups.wallpaper(1, False, (4, 0))
        with pytest.raises(InvalidTypeError, match="shape is 4"):
            groups.wallpaper(1, False, 4)
        with pytest.raises(InvalidArgumentError, match=r"label.*\(0 to 3, "):
            groups.wallpaper(4, False, (4, 4)).index(4, 0, (0, 0))
        with pytest.raises(InvalidArgumentError, match="label is"):
            groups.wallpaper(4, False, (4, 4)).index(1, 2)


class TestTranslations:
    @given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.data())
    def test_adds_vectors(self, shape, data):
        G = groups.translations(shape)
        assert G.order == math.prod(shape)
        a, b = data.draw(st.integers(0, G.order - 1)), data.draw(st.integers(0, G.order - 1))
        total = tuple((i + j) % n for i, j, n in zip(G.element(a), G.element(b), shape, strict=True))
        assert G.element(G.compose(a, b)) == total
        assert G.compose(a, G.inverse(a)) == G.identity
        assert G.index(G.element(a)) == a
        assert np.array_equal(G.grid_rows(a), G.grid_table[a])

    def test_is_p1(self):
        assert groups.translations((3, 4)).has_same_table(groups.wallpaper(1, False, (3, 4)))

    def test_refuses(self):
        with pytest.raises(ShapeError, match=r"shape is .*; expected at least one side length"):
            groups.translations(())
        with pytest.raises(InvalidArgumentError, match="label is"):
            groups.translations((2, 3)).index(1)
