"""`equitangents systems`: data in a file, numbers on the screen and in JSON, and what bad input gets."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from equitangents_studies.systems import compare_architectures, textures

OPTIONS = ("--architectures", "FCN,GAP", "--groups", "O(3d)", "--depth", 1, "--repetitions", 5)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    drawn = textures(50, (3, 3, 2), classes=2, seed=2)
    np.savez(tmp_path / "mine.npz", x=np.moveaxis(drawn.x, -1, 1), y=drawn.labels)
    return tmp_path / "mine.npz"


@pytest.fixture
def run(command):
    return partial(command, "systems")


@pytest.mark.slow
def test_the_answer_is_that_of_compare_architectures_and_the_file_has_its_numbers(capsys, data, tmp_path):
    numbers = tmp_path / "numbers.json"
    status, out, err = run(
        capsys, "--data", data, "--layout", "channels_first", "--inputs", 40, *OPTIONS, "--json", numbers
    )
    assert (status, err) == (0, "")
    x, y = np.load(data)["x"], np.load(data)["y"]
    options = {"architectures": ["FCN", "GAP"], "groups": ["O(3d)"], "depth": 1, "repetitions": 5}
    found = compare_architectures(np.moveaxis(x, 1, -1), y, inputs=40, **options)
    assert out == f"{found}\n"
    written = json.loads(numbers.read_text())
    assert written["best"] == list(found.best)
    assert (written["inputs"], written["available_inputs"]) == (40, 50)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--architectures", "FCN"], "two or more"),
        (["--groups", "O(7)^d"], "O(7)^d"),
        (["--layout", "hwc"], "channels_first"),
        (["--inputs", "3"], "inputs"),
        (["--kernel", "rbf"], "rbf"),
        (["--ridge", "-1"], "ridge"),
    ],
)
def test_bad_options_get_one_line_and_status_2(run, data, arguments, message):
    status, _, err = run("--data", data, "--layout", "channels_first", *arguments)
    assert status == 2
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros((40, 4, 4, 1))}, "expected arrays x and y"),
        ({"x": np.zeros((40, 4, 4, 1)), "y": np.arange(40) % 2}, "one number everywhere"),
        ({"x": np.ones((40, 16)), "y": np.arange(40) % 2}, "on a grid"),
        (
            {"x": np.ones((40, 4, 4, 1)), "y": np.arange(40) % 2, "x_test": np.ones((5, 4, 4, 1))},
            "both x_test and y_test",
        ),
    ],
)
def test_bad_data_get_one_line_and_status_2(run, tmp_path, arrays, message):
    np.savez(tmp_path / "bad.npz", **arrays)
    status, _, err = run("--data", tmp_path / "bad.npz")
    assert status == 2
    assert message in err
    assert err.count("\n") == 1
