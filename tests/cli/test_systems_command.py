"""`equitangents systems`: data in a file, numbers on the screen, files, and what bad input gets."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from equitangents.cli.main import main
from equitangents.report.render import outside_resources
from equitangents_studies.systems import compare_architectures, textures

OPTIONS = ("--architectures", "FCN,GAP", "--groups", "O(3d)", "--depth", 1, "--repetitions", 5)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    drawn = textures(50, (3, 3, 2), classes=2, seed=2)
    np.savez(tmp_path / "mine.npz", x=np.moveaxis(drawn.x, -1, 1), y=drawn.labels)
    return tmp_path / "mine.npz"


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(["systems", *map(str, arguments)])
    output = capsys.readouterr()
    return int(stop.value.code or 0), output.out, output.err


@pytest.mark.slow
def test_the_answer_is_that_of_compare_architectures_and_every_file_is_whole(capsys, data, tmp_path):
    folder, page, numbers = tmp_path / "new" / "out", tmp_path / "page.html", tmp_path / "numbers.json"
    files = ["--out", folder, "--html", page, "--json", numbers]
    status, out, err = run(capsys, "--data", data, "--layout", "channels_first", "--inputs", 40, *OPTIONS, *files)
    assert (status, err) == (0, "")
    x, y = np.load(data)["x"], np.load(data)["y"]
    options = {"architectures": ["FCN", "GAP"], "groups": ["O(3d)"], "depth": 1, "repetitions": 5}
    found = compare_architectures(np.moveaxis(x, 1, -1), y, inputs=40, **options)
    assert str(found) in out
    told = "3 kernel matrices of 40 inputs: "
    assert out.startswith((f"{told}about ", f"{told}a time that cannot be foretold here"))
    written = json.loads(numbers.read_text())
    assert written["best"] == list(found.best)
    assert (written["inputs"], written["available_inputs"]) == (40, 50)
    assert json.loads((folder / "results.json").read_text())["curves"] == written["curves"]
    assert (folder / "curves.csv").read_text().startswith("architecture,group,training_inputs,error,low,high\n")
    html = page.read_text()
    assert outside_resources(html) == []
    assert f"than another: {', '.join(found.best)}." in html
    assert (folder / "report.html").read_text().count("<svg") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--architectures", "FCN"], "two or more"),
        (["--groups", "O(7)^d"], "O(7)^d"),
        (["--layout", "hwc"], "channels_first"),
        (["--minutes", "1e-9"], "allow more"),
        (["--inputs", "3"], "inputs is 3"),
        (["--kernel", "rbf"], "rbf"),
        (["--ridge", "-1"], "ridge"),
    ],
)
def test_bad_options_get_one_line_and_status_2(capsys, data, arguments, message):
    status, _, err = run(capsys, "--data", data, "--layout", "channels_first", *arguments)
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
def test_bad_data_get_one_line_and_status_2(capsys, tmp_path, arrays, message):
    np.savez(tmp_path / "bad.npz", **arrays)
    status, _, err = run(capsys, "--data", tmp_path / "bad.npz")
    assert status == 2
    assert message in err
    assert err.count("\n") == 1
