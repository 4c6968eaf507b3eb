"""Tiles on disk: what was written or not there; damage of any file gives no number; disks that take nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from equitangents.errors import StoreError
from equitangents.scale.chunks import Chunks, TileGrid, ZarrTiles
from equitangents.scale.place import DamagedTileError, check_room, store_errors
from examples import examples

RNG = np.random.default_rng(0)
FLOATS = np.dtype("float64")


@pytest.fixture
def tiles(tmp_path):
    """Those of a symmetric matrix of three rows, on which two lines of a store can be put."""
    for name in ("nngp", "ntk"):
        (tmp_path / name).mkdir()
    return ZarrTiles({name: Chunks(tmp_path / name, (2, 2), FLOATS) for name in ("nngp", "ntk")}, TileGrid(3, None, 2))


def values(tile):
    made = [RNG.normal(size=(2 - tile[0], 2 - tile[1])) for _ in range(2)]
    return [one + one.T for one in made] if tile[0] == tile[1] else made


def test_are_what_was_written_or_not_there(tiles):
    written = {tile: values(tile) for tile in ((0, 0), (0, 1))}
    for tile, value in written.items():
        tiles.write(tile, value)
    assert tiles.missing([(0, 0), (0, 1), (1, 1)]) == [(1, 1)]
    assert [tiles.is_whole(tile) for tile in ((0, 0), (0, 1), (1, 1))] == [True, True, False]
    for tile, value in written.items():
        for chunks, two in zip(tiles.arrays.values(), value, strict=True):
            np.testing.assert_array_equal(chunks.read(tile)[: two.shape[0], : two.shape[1]], two)


@pytest.mark.parametrize("half", ["its own", "the other", "both"])
def test_are_damaged_where_one_number_is(tiles, half):
    tiles.write((0, 1), values((0, 1)))
    for at in {"its own": [(0, 1)], "the other": [(1, 0)], "both": [(0, 1), (1, 0)]}[half]:
        file = tiles.arrays["ntk"].path(at)
        file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:])
    assert not tiles.is_whole((0, 1))
    assert tiles.missing([(0, 1)]) == []
    if half != "the other":
        with pytest.raises(DamagedTileError, match="does not have its checksum"):
            tiles.arrays["ntk"].read((0, 1))


@examples(8, random=200)
@given(st.integers(1, 9), st.sampled_from(["float32", "float64"]), st.integers(0, 10**6))
def test_of_an_array_are_read_as_written_by_us_and_by_zarr(tmp_path_factory, side, dtype, seed):
    folder, rng = tmp_path_factory.mktemp("array"), np.random.default_rng(seed)
    written = rng.normal(size=tuple(rng.integers(1, side + 1, 2))).astype(dtype)
    chunks = Chunks(folder, (side, side), np.dtype(dtype))
    chunks.write((0, 0), written)
    (folder / "zarr.json").write_text(json.dumps(chunks.metadata((side, side), {})))
    for read in (chunks.read((0, 0)), zarr.open_array(folder, mode="r")[:]):
        np.testing.assert_array_equal(read[: len(written), : written.shape[1]], written)
        assert np.isnan(read).sum() == side**2 - written.size
    good = bytearray(chunks.path((0, 0)).read_bytes())
    good[int(rng.integers(len(good)))] ^= 1 << int(rng.integers(8))
    chunks.path((0, 0)).write_bytes(good)
    with pytest.raises(DamagedTileError):
        chunks.read((0, 0))


def test_a_disk_that_takes_nothing_is_an_error_of_one_line(tmp_path):
    (tmp_path / "file").touch()
    chunks = Chunks(tmp_path / "file", (2,), FLOATS)
    with (
        pytest.raises(StoreError, match=r"cannot be written: .*; the rest is"),
        store_errors("it cannot be written", "; the rest is"),
    ):
        chunks.write((0,), np.zeros(2))


def test_room_is_looked_for(tmp_path):
    check_room(tmp_path, 1, "a byte takes")
    with pytest.raises(StoreError, match=r"it takes 1.* TB, and the disk has .* left; make room"):
        check_room(tmp_path, 10**18, "it takes")
