"""Stores of tiles: complete ones stop where a disk does, others forget; damage of any file gives no number."""

from __future__ import annotations

import logging
import os
from functools import partial

import numpy as np
import pytest

from equitangents.errors import StoreError
from equitangents.tiles.chunks import Chunks
from equitangents.tiles.grid import Grid
from equitangents.tiles.mapped import MappedTiles
from equitangents.tiles.store import (
    CompleteTiles,
    DamagedTileError,
    FileTiles,
    RecentTiles,
    check_room,
    store_errors,
)
from equitangents.tiles.zarr_tiles import ZarrTiles

RNG = np.random.default_rng(0)
FLOATS = np.dtype("float64")


class Texts(FileTiles[bytes]):
    """Files that begin with their key."""

    def read(self, key):
        content = self.path(key).read_bytes()
        if not content.startswith(key.encode()):
            raise DamagedTileError(f"{self.path(key)} is damaged")
        return content

    def write(self, key, value):
        self.path(key).write_bytes(value)


@pytest.fixture
def recent(tmp_path):
    return RecentTiles("texts", Texts(tmp_path, ".txt"), limit=10)


def complete(folder, tiles):
    return CompleteTiles("chunks", folder, tiles, partial(store_errors, f"{folder} cannot be written", "; the rest is"))


def zarr(folder):
    return ZarrTiles({name: Chunks(folder / name, (2, 2), FLOATS) for name in ("a", "b")}, Grid((3,), None, 2))


def mapped(folder):
    found = MappedTiles(folder, ("a", "b"), [np.array([0, 2]), np.array([1])], FLOATS)
    if not (folder / "a.npy").exists():
        found.make()
    return found


def values(tile):
    made = [RNG.normal(size=(2 - tile[0], 2 - tile[1])) for _ in range(2)]
    return [one + one.T for one in made] if tile[0] == tile[1] else made


@pytest.mark.parametrize("kind", [zarr, mapped])
class TestAnyTiles:
    def test_are_what_was_written_or_not_there(self, tmp_path, kind):
        for name in ("a", "b"):
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
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
        tiles = kind(tmp_path)
        tiles.write((0, 1), values((0, 1)))
        for at in {"its own": [(0, 1)], "the other": [(1, 0)], "both": [(0, 1), (1, 0)]}[half]:
            if kind is mapped:
                array = np.load(tmp_path / "b.npy", mmap_mode="r+")
                array[at] += 1e-9
                array.flush()
            else:
                file = tmp_path / "b" / "c" / str(at[0]) / str(at[1])
                file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:])
        assert tiles.state((0, 1)) == "damaged"
        assert tiles.missing([(0, 1)]) == []
        if half != "the other":
            with pytest.raises(DamagedTileError):
                tiles.read((0, 1))


class TestComplete:
    def test_tiles_are_computed_once_in_order_and_again_where_damaged(self, tmp_path, caplog):
        store, calls = complete(tmp_path, Chunks(tmp_path, (2,), FLOATS)), []

        def compute(key):
            calls.append(key)
            return np.full(2, float(key[0]))

        done = list(store.each_computed([(k,) for k in range(3)], lambda key: None if key == (1,) else compute(key)))
        assert [(key, computed) for key, computed, _ in done] == [((0,), True), ((1,), False), ((2,), True)]
        assert store.tiles.missing([(k,) for k in range(3)]) == [(1,)]
        assert store.fetch((2,), partial(compute, (2,)))[1]
        (tmp_path / "c" / "2").write_bytes(b"\1" * 20)
        assert store.fetch((2,), partial(compute, (2,)))[0].tolist() == [2, 2]
        assert "does not have its checksum and is computed anew" in caplog.text
        assert calls == [(0,), (2,), (2,)]
        assert store.fetch((2,), partial(pytest.fail, "again"))[1]

    def test_a_disk_that_takes_nothing_is_an_error_of_one_line(self, tmp_path):
        (tmp_path / "file").touch()
        store = complete(tmp_path, Chunks(tmp_path / "file", (2,), FLOATS))
        for write in (
            lambda: store.write((0,), np.zeros(2)),
            lambda: list(store.each_computed([(0,)], lambda key: np.zeros(2))),
        ):
            with pytest.raises(StoreError, match=r"cannot be written: .*; the rest is"):
                write()

    def test_room_is_looked_for(self, tmp_path):
        check_room(tmp_path, 1, "a byte takes")
        with pytest.raises(StoreError, match=r"it takes 1.* TB, and the disk has .* left; make room"):
            check_room(tmp_path, 10**18, "it takes")


class TestRecent:
    def test_what_was_used_longest_ago_goes_and_never_what_was_just_written(self, recent):
        for turn, key in enumerate("abc"):
            recent.write(key, key.encode() * 3)
            os.utime(recent.folder / f"{key}.txt", (turn, turn))
        assert recent.read("a") == b"aaa"  # used again, so that b is the oldest
        recent.write("d", b"ddd")
        assert [path.stem for path in recent.files] == ["a", "c", "d"]
        recent.write("e", b"e" * 20)
        assert [path.stem for path in recent.files] == ["e"]
        assert (recent.size, recent.clear(), recent.files) == (20, (1, 20), [])

    def test_what_is_damaged_or_cannot_be_written_is_said_and_computed(self, recent, caplog):
        caplog.set_level(logging.WARNING)
        recent.write("a", b"other")
        assert recent.fetch("a", lambda: b"again") == (b"again", False)
        assert "texts: " in caplog.text
        assert "is damaged and is computed anew" in caplog.text
        assert recent.fetch("no/folder", lambda: b"kept?") == (b"kept?", False)
        assert "nothing can be kept" in caplog.text
