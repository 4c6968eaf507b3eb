"""What a file claims is compared with what it holds, and with memory, before anything is allocated."""

from __future__ import annotations

import io
import json
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
import zarr

import equitangents as et
from equitangents.array_files import read_arrays
from equitangents.errors import InvalidArgumentError, StoreError
from equitangents.file_limits import check_arrays, read_json
from equitangents.nn.specification import read_network
from equitangents.scale.reading import read_inputs
from equitangents_studies.data.folder import load_own
from equitangents_studies.framework import stage_files


def claiming(shape, descr="<f8", held=b""):
    """An .npy file whose header says what it wants."""
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + held


def archive(content, *names):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name in names:
            zipped.writestr(name, content)
    return file.getvalue()


HUGE = claiming((4_000_000_000,), held=bytes(128))


@pytest.mark.parametrize("read", [read_inputs, read_arrays, lambda name, path: load_own(path)])
@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.npy", HUGE, "its header claims 32,000,000,000 bytes, shape \\(4000000000,\\), and it holds 128"),
        ("a.npy", claiming((2, -3), held=bytes(48)), "its header claims"),
        ("a.npy", claiming((1,), "|V99999999999"), "its header claims|cannot read|not a valid dtype"),
        ("a.npz", archive(HUGE, "x.npy", "y.npy"), "its header claims 32,000,000,000 bytes"),
        (
            "a.npz",
            archive(claiming((3,), held=bytes(32)), "x.npy", "y.npy"),
            "claims 24 bytes, .* holds 32",
        ),
        ("a.npz", archive(b"no header at all", "x.npy", "y.npy"), "x.npy is no array"),
    ],
    ids=["npy", "negative", "type", "npz", "less", "no array"],
)
def test_a_header_that_claims_what_is_not_there_is_refused_before_memory_is_taken(tmp_path, read, name, content, said):
    path = tmp_path / name
    path.write_bytes(content)
    tracemalloc.start()
    with pytest.raises(InvalidArgumentError, match=said) as error:
        read("data", path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**7
    assert "\n" not in str(error.value)


def test_an_archive_that_unpacks_to_more_than_half_of_the_memory_is_refused(tmp_path, monkeypatch):
    x = np.zeros((400, 50, 50), np.float32)
    np.savez_compressed(tmp_path / "bomb.npz", x=x, y=np.arange(400) % 2)
    np.savez(tmp_path / "stored.npz", x=x, y=np.arange(400) % 2)
    monkeypatch.setattr("equitangents.file_limits.default_memory_limit", lambda: 10**6)
    with pytest.raises(InvalidArgumentError, match="unpacks to 4 MB, more than half of the memory"):
        load_own(tmp_path / "bomb.npz")
    np.testing.assert_array_equal(read_inputs("data", tmp_path / "stored.npz"), x)  # a map of the file


def test_an_entry_of_an_archive_that_claims_more_than_it_can_hold_is_refused(tmp_path):
    content = bytearray(archive(claiming((2,), held=bytes(16)), "x.npy"))
    at = content.rfind(b"PK\1\2")
    content[at + 24 : at + 28] = struct.pack("<I", 2**31)
    with pytest.raises(ValueError, match=r"x\.npy claims 2\.15 GB and holds"):
        check_arrays(io.BytesIO(bytes(content)))


def test_a_swallowed_entry_of_an_archive_is_seen(tmp_path):
    """One flipped bit of the length of an entry's comment, and the directory skips the entry after it."""
    arrays = {"a": np.arange(3.0), "b": np.eye(2), "c": np.arange(4)}
    stage_files.write(tmp_path / "stage.npz", arrays, "f")
    whole = (tmp_path / "stage.npz").read_bytes()
    assert sorted(stage_files.read(tmp_path / "stage.npz", "f") or {}) == ["a", "b", "c"]
    swallowed, starts = 0, [at for at in range(len(whole)) if whole[at:].startswith(b"PK\1\2")]
    for at in [start + offset for start in starts for offset in range(28, 34)]:  # lengths of name, extra, and comment
        for bit in range(8):
            (tmp_path / "stage.npz").write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
            found = stage_files.read(tmp_path / "stage.npz", "f")
            assert found is None or all(np.array_equal(found.get(name), array) for name, array in arrays.items())
            swallowed += found is None
    assert len(starts) == 4
    assert swallowed > 100


@pytest.mark.parametrize("depth", [300, 5000, 100_000])
def test_brackets_without_end_are_an_error_of_one_line(tmp_path, depth):
    text = '[{"layer": "Residual", "layers": ' * depth + "1" + "}]" * depth
    (tmp_path / "net.json").write_text(text)
    with pytest.raises(InvalidArgumentError, match="nested too deeply") as error:
        read_network(tmp_path / "net.json")
    assert "\n" not in str(error.value)
    (tmp_path / "m").mkdir()
    with zipfile.ZipFile(tmp_path / "m" / "model.npz", "w") as archive:
        archive.writestr("model.json", '{"content": ' + "[" * depth + "]" * depth + "}")
    with pytest.raises(StoreError, match="nested too deeply"):
        et.InfiniteEnsemble.load(tmp_path / "m")
    assert read_json(json.dumps(json.loads("[" * 150 + "]" * 150))) != []


def test_a_zarr_array_of_a_million_million_rows_is_refused(tmp_path):
    zarr.create_array(tmp_path / "x.zarr", shape=(10**12, 8), chunks=(10**4, 8), dtype="f8")[:3] = 1.0
    with pytest.raises(InvalidArgumentError, match=r"it claims 64 TB, and holds \d+.* of it"):
        read_inputs("data", tmp_path / "x.zarr")
    zarr.create_array(tmp_path / "one.zarr", shape=(10**12, 8), chunks=(10**12, 8), dtype="f8")
    with pytest.raises(InvalidArgumentError, match="each of its chunks takes 64 TB, more than the memory there is"):
        read_inputs("data", tmp_path / "one.zarr")


def test_a_damaged_chunk_of_inputs_is_an_error_of_one_line(tmp_path):
    net = et.nn.Sequential(et.nn.Dense(1), et.nn.Relu(), et.nn.Dense(1))
    model = et.InfiniteEnsemble(net, ridge=0.1).fit(np.eye(3), np.eye(3)[:, 0])
    zarr.create_array(tmp_path / "x.zarr", shape=(4, 3), chunks=(2, 3), dtype="f8")[:] = np.ones((4, 3))
    for file in (tmp_path / "x.zarr" / "c").rglob("*"):
        if file.is_file():
            file.write_bytes(b"nothing that Zarr wrote")
    x = read_inputs("data", tmp_path / "x.zarr")
    with pytest.raises(StoreError, match="x cannot be read: ") as error:
        et.ensembles.predict_to_file(model, x, tmp_path / "out.npy")
    assert "\n" not in str(error.value)
