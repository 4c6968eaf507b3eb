"""Tiles on disk: computed in order, stopped where a disk does; damage of any file gives no number."""

from __future__ import annotations

import numpy as np
import pytest

from equitangents.ensembles.fields.store import _PointTiles
from equitangents.errors import StoreError
from equitangents.tiles.chunks import Chunks, ZarrTiles
from equitangents.tiles.grid import Grid
from equitangents.tiles.store import (
    DamagedTileError,
    check_room,
    each_computed,
    store_errors,
)

RNG = np.random.default_rng(0)
FLOATS = np.dtype("float64")


def zarr(folder):
    return ZarrTiles({name: Chunks(folder / name, (2, 2), FLOATS) for name in ("nngp", "ntk")}, Grid((3,), None, 2))


def mapped(folder):
    found = _PointTiles(folder, [slice(0, 2), slice(2, 3)], FLOATS)
    if not (folder / "ntk.npy").exists():
        found.make()
    return found


def values(tile):
    made = [RNG.normal(size=(2 - tile[0], 2 - tile[1])) for _ in range(2)]
    return [one + one.T for one in made] if tile[0] == tile[1] else made


@pytest.mark.parametrize("kind", [zarr, mapped])
class TestAnyTiles:
    def test_are_what_was_written_or_not_there(self, tmp_path, kind):
        for name in ("nngp", "ntk"):
            (tmp_path / name).mkdir()
        tiles, written = kind(tmp_path), {tile: values(tile) for tile in ((0, 0), (0, 1))}
        for tile, value in written.items():
            tiles.write(tile, value)
        again = kind(tmp_path)
        assert again.missing([(0, 0), (0, 1), (1, 1)]) == [(1, 1)]
        assert [again.state(tile) for tile in ((0, 0), (0, 1), (1, 1))] == ["whole", "whole", "missing"]
        for tile, value in written.items():
            for one, two in zip(again.read(tile), value, strict=True):
                np.testing.assert_array_equal(one, two)

    @pytest.mark.parametrize("half", ["its own", "the other", "both"])
    def test_are_damaged_where_one_number_is(self, tmp_path, kind, half):
        for name in ("nngp", "ntk"):
            (tmp_path / name).mkdir()
        tiles = kind(tmp_path)
        tiles.write((0, 1), values((0, 1)))
        for at in {"its own": [(0, 1)], "the other": [(1, 0)], "both": [(0, 1), (1, 0)]}[half]:
            if kind is mapped:
                array = np.load(tmp_path / "ntk.npy", mmap_mode="r+")
                array[2 * at[0], 2 * at[1]] += 1e-9
                array.flush()
            else:
                file = tmp_path / "ntk" / "c" / str(at[0]) / str(at[1])
                file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:])
        assert tiles.state((0, 1)) == "damaged"
        assert tiles.missing([(0, 1)]) == []
        if half != "the other":
            with pytest.raises(DamagedTileError):
                tiles.read((0, 1))


def test_tiles_are_computed_in_order_and_those_that_are_there_are_left(tmp_path):
    chunks = Chunks(tmp_path, (2,), FLOATS)
    compute = lambda key: None if key == (1,) else np.full(2, float(key[0]))
    assert list(each_computed(chunks, [(k,) for k in range(3)], compute)) == [True, False, True]
    assert chunks.missing([(k,) for k in range(3)]) == [(1,)]
    assert chunks.read((2,)).tolist() == [2, 2]
    (tmp_path / "c" / "2").write_bytes(b"\1" * 20)
    with pytest.raises(DamagedTileError, match="does not have its checksum"):
        chunks.read((2,))


def test_a_disk_that_takes_nothing_is_an_error_of_one_line(tmp_path):
    (tmp_path / "file").touch()
    chunks = Chunks(tmp_path / "file", (2,), FLOATS)
    for write in (
        lambda: chunks.write((0,), np.zeros(2)),
        lambda: list(each_computed(chunks, [(0,)], lambda key: np.zeros(2))),
    ):
        with (
            pytest.raises(StoreError, match=r"cannot be written: .*; the rest is"),
            store_errors("it cannot be written", "; the rest is"),
        ):
            write()


def test_room_is_looked_for(tmp_path):
    check_room(tmp_path, 1, "a byte takes")
    with pytest.raises(StoreError, match=r"it takes 1.* TB, and the disk has .* left; make room"):
        check_room(tmp_path, 10**18, "it takes")
