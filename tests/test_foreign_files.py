"""What a file claims is compared with what it holds, and with memory."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zarr

import equitangents as et
from equitangents import nn
from equitangents.ensembles.saved_folder import MODEL, read_about
from equitangents.errors import EquitangentsError, InvalidArgumentError, NetworkError, StoreError
from equitangents.files import MOST, file_bytes, open_regular
from equitangents.foreign_files import read_arrays, read_json
from equitangents.nn.sequential import MOST_LAYERS
from equitangents.nn.specification import network_of, read_network
from equitangents.scale.reading import read_inputs
from equitangents.scale.record import _record_in
from equitangents_studies.data.folder import load_own
from equitangents_studies.framework.folder import read_stage, write_stage


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
    ("name", "content"),
    [
        ("a.npy", HUGE),
        ("a.npy", claiming((2, -3), held=bytes(48))),
        ("a.npy", claiming((1,), "|V99999999999")),
        ("a.npz", archive(HUGE, "x.npy", "y.npy")),
        ("a.npz", archive(claiming((3,), held=bytes(32)), "x.npy", "y.npy")),
        ("a.npz", archive(b"no header at all", "x.npy", "y.npy")),
    ],
    ids=["npy", "negative", "type", "npz", "less", "no array"],
)
def test_a_header_that_claims_what_is_not_there_is_refused(tmp_path, read, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidArgumentError, match=r"expected an \.npy or \.npz file") as error:
        read("data", path)
    assert "\n" not in str(error.value)


def test_an_archive_that_unpacks_to_more_than_half_of_the_memory_is_refused(tmp_path, monkeypatch):
    x = np.zeros((400, 50, 50), np.float32)
    np.savez_compressed(tmp_path / "bomb.npz", x=x, y=np.arange(400) % 2)
    np.savez(tmp_path / "stored.npz", x=x, y=np.arange(400) % 2)
    monkeypatch.setattr("equitangents.foreign_files.default_memory_limit", lambda: 10**6)
    with pytest.raises(InvalidArgumentError, match="unpacks to 4 MB, more than half of the memory"):
        load_own(tmp_path / "bomb.npz")
    np.testing.assert_array_equal(read_inputs("data", tmp_path / "stored.npz"), x)  # a map of the file


def test_a_swallowed_entry_of_an_archive_is_seen(tmp_path):
    """One flipped bit of the length of an entry's comment, and the directory skips the entry after it."""
    arrays = {"a": np.arange(3.0), "b": np.eye(2), "c": np.arange(4)}
    write_stage(tmp_path / "stage.npz", arrays, "f")
    whole = (tmp_path / "stage.npz").read_bytes()
    assert sorted(read_stage(tmp_path / "stage.npz", "f") or {}) == ["a", "b", "c"]
    swallowed, starts = 0, [at for at in range(len(whole)) if whole[at:].startswith(b"PK\1\2")]
    for at in [start + offset for start in starts for offset in range(28, 34)]:  # lengths of name, extra, and comment
        for bit in range(8):
            (tmp_path / "stage.npz").write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
            found = read_stage(tmp_path / "stage.npz", "f")
            assert found is None or all(np.array_equal(found.get(name), array) for name, array in arrays.items())
            swallowed += found is None
    assert len(starts) == 4
    assert swallowed


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


def planted(kind: str, path: Path) -> Path:
    """What is no file of ordinary size, at `path` or elsewhere."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        return Path("/dev/zero")
    elif kind == "link to a device":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as file:
            file.truncate(20 * 2**30)
    return path


@pytest.fixture(params=["pipe", "device", "link to a device", "sparse"])
def hostile(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return planted(request.param, tmp_path / "model.json")


@pytest.mark.timeout(20)
def test_what_is_no_regular_file_or_too_large_is_not_read(hostile: Path) -> None:
    with pytest.raises(OSError, match=r"no regular file|takes 21,474,836,480 bytes; expected at most 67,108,864"):
        file_bytes(hostile)
    with pytest.raises(InvalidArgumentError, match=r"expected a file that can be read; it "):
        read_network(hostile)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", [MODEL, "zarr.json"])
@pytest.mark.parametrize("kind", ["pipe", "sparse"])
def test_a_folder_that_holds_it_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    planted(kind, tmp_path / name)
    with pytest.raises(EquitangentsError, match=r"expected a (saved model|folder) that can be read"):
        read_about(tmp_path) if name == MODEL else _record_in(tmp_path)


def test_a_file_of_just_the_stated_size_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert file_bytes(path, 5) == b"12345"
    with pytest.raises(OSError, match="it takes 5 bytes; expected at most 4"):
        file_bytes(path, 4)
    with open_regular(path) as file:
        assert file.read() == b"12345"
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
    assert MOST == 2**26


def test_networks_have_a_stated_number_of_layers_at_most(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text(json.dumps([{"layer": "Relu"}] * 200_000))
    with pytest.raises(InvalidArgumentError, match="layers number 200000; expected 0 to 10000"):
        read_network(path)
    inside = [{"layer": "Residual", "layers": [{"layer": "Relu"}] * 6_000}] * 2
    with pytest.raises(InvalidArgumentError, match="layers number 12002"):
        network_of(inside)
    with pytest.raises(NetworkError, match="layers number 10001"):
        nn.Sequential(*[nn.Relu()] * (MOST_LAYERS + 1))
