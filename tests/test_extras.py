"""What the hard dependencies do alone, and what a call that needs more says before it computes."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from equitangents.errors import EquitangentsError, MissingLibraryError, require

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
ALONE = """
import sys
OPTIONAL = {"zarr", "google_crc32c", "numcodecs", "obstore", "distributed", "dask", "tensorstore", "pooch",
            "flax", "equinox", "ase", "dscribe", "torch", "onnx", "onnxruntime"}

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in OPTIONAL:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
import numpy as np
import equitangents as et
from equitangents.cli.main import main
from equitangents.errors import MissingLibraryError
from equitangents_studies.data import molecules

def run(*words):
    sys.argv = ["equitangents", *words]
    try:
        main()
    except SystemExit as end:
        return end.code or 0
    return 0

net = et.nn.Sequential(et.nn.Dense(4), et.nn.Relu(), et.nn.Dense(1))
x = np.random.default_rng(0).normal(size=(6, 3))
np.savez("train.npz", x=x, y=x[:, 0])
assert run("fit", "--data", "train.npz", "--net", "mlp", "--depth", "2", "--ridge", "1e-3", "--out", "model") == 0
assert run("predict", "model", "--data", "train.npz", "--out", "predictions.npy") == 0
model = et.InfiniteEnsemble.load("model")
np.testing.assert_allclose(np.load("predictions.npy"), model.predict(x), rtol=1e-6)
assert run("gram", "--data", "train.npz", "--net", "mlp", "--out", "gram.zarr") == 2
assert run("reproduce", "toy") == 2
for extra, call in {
    "scale": lambda: et.scale.GramStore("gram.zarr", net, x),
    "studies": lambda: molecules.g2(),
}.items():
    try:
        call()
    except MissingLibraryError as error:
        assert error.extra == extra, (error.extra, extra)
    else:
        raise AssertionError(extra)
"""


def test_fit_predict_and_saved_models_need_no_extra(tmp_path):
    ran = subprocess.run([sys.executable, "-c", ALONE], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    needed = [line for line in ran.stderr.splitlines() if "not installed" in line]
    assert [line.partition("pip install ")[2].partition("'")[2].partition("'")[0] for line in needed] == [
        "equitangents[scale]",
        "equitangents[studies]",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "predictions.npy", "train.npz"]


@pytest.mark.parametrize("library", ["nothing_of_this_name", "nothing_of_this_name.within"])
def test_a_missing_library_is_an_import_error_that_names_its_extra(library):
    require("numpy", "scale", "everything")
    with pytest.raises(MissingLibraryError) as caught:
        require(library, "scale", "a Gram store")
    error = caught.value
    assert (error.library, error.extra, error.user) == (library, "scale", "a Gram store")
    said = f"a Gram store needs {library}, which is not installed: pip install 'equitangents[scale]'"
    assert str(error) == f"{said} (in a checkout '.[scale]')"
    assert isinstance(error, EquitangentsError)
    assert isinstance(error, ImportError)


def test_there_are_at_most_twelve_hard_dependencies():
    assert len(PROJECT["dependencies"]) <= 12
