"""Files of strangers: no pipe, no device, and nothing larger than stated is read."""

import json
import os
from pathlib import Path

import pytest

from equitangents import nn
from equitangents.audit.report.checks import read_report
from equitangents.ensembles.storage.array_folder import MODEL, read_about
from equitangents.errors import EquitangentsError, InvalidArgumentError, NetworkError
from equitangents.files import MOST, file_bytes, open_regular
from equitangents.model_files import check_model
from equitangents.nn.sequential import MOST_LAYERS
from equitangents.nn.specification import network_of, read_network
from equitangents.scale.record import _record_in


@pytest.fixture(params=["pipe", "device", "link to a device", "sparse"])
def hostile(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "model.json"
    if request.param == "pipe":
        os.mkfifo(path)
    elif request.param == "device":
        return Path("/dev/zero")
    elif request.param == "link to a device":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as file:
            file.truncate(20 * 2**30)
    return path


@pytest.mark.timeout(20)
def test_what_is_no_regular_file_or_too_large_is_not_read(hostile: Path) -> None:
    with pytest.raises(OSError, match=r"no regular file|takes 21,474,836,480 bytes; expected at most 67,108,864"):
        file_bytes(hostile)


@pytest.mark.timeout(20)
def test_every_reader_of_json_refuses_it(hostile: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be read: it "):
        read_network(hostile)
    with pytest.raises(InvalidArgumentError, match=r"expected a report that can be read; .* it "):
        read_report(hostile)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", [MODEL, "zarr.json"])
@pytest.mark.parametrize("kind", ["pipe", "sparse"])
def test_a_folder_that_holds_it_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(tmp_path / name)
    else:
        with (tmp_path / name).open("wb") as file:
            file.truncate(20 * 2**30)
    with pytest.raises(EquitangentsError, match="cannot be read"):
        read_about(tmp_path) if name == MODEL else _record_in(tmp_path)


def test_a_model_larger_than_one_buffer_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with path.open("wb") as file:
        file.truncate(2**31)
    with pytest.raises(InvalidArgumentError, match="has bytes, 2147483648; expected 0 to"):
        check_model(str(path))


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
