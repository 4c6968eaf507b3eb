"""Inputs in files stay on disk where the format allows it; damage is found."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

from equitangents.errors import InvalidArgumentError
from equitangents.scale.reading import read_inputs, read_pair

X = np.random.default_rng(0).normal(size=(7, 3))


def test_arrays_in_files_are_read_by_name_and_those_of_npy_stay_on_disk(tmp_path):
    np.save(tmp_path / "d.npy", X)
    np.savez(tmp_path / "d.npz", y=np.arange(3), x=X, other=X[:2])
    assert isinstance(read_inputs("data", tmp_path / "d.npy"), np.memmap)
    for name in ("d.npy", "d.npz"):
        np.testing.assert_array_equal(read_inputs("data", tmp_path / name), X)
    np.testing.assert_array_equal(read_inputs("data", tmp_path / "d.npz", "other"), X[:2])


def test_a_flipped_bit_in_an_archive_is_found(tmp_path):
    np.savez(tmp_path / "d.npz", x=X)
    content = bytearray((tmp_path / "d.npz").read_bytes())
    content[-250] ^= 1
    (tmp_path / "d.npz").write_bytes(content)
    with pytest.raises(InvalidArgumentError, match=r"expected an \.npy or \.npz file; Bad CRC-32"):
        read_inputs("data", tmp_path / "d.npz")


def test_inputs_and_targets_come_from_one_archive_or_group(tmp_path):
    np.savez(tmp_path / "d.npz", x=X, y=np.arange(7))
    group = zarr.open_group(tmp_path / "d.zarr", mode="w")
    group["x"] = X
    group["y"] = np.arange(7)
    for name in ("d.npz", "d.zarr"):
        x, y = read_pair(tmp_path / name)
        np.testing.assert_array_equal(x[:], X)
        np.testing.assert_array_equal(y[:], np.arange(7))
    np.savez(tmp_path / "e.npz", x=X)
    with pytest.raises(InvalidArgumentError, match="expected y; it holds x"):
        read_pair(tmp_path / "e.npz")
