"""Keras 3 models on JAX: in inference mode, with their layers, of one batch size or any."""

from __future__ import annotations

import json
import os
import warnings
import zipfile

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np
import pytest

import equitangents as et
from equitangents.audit.adapters.choose import load_model
from equitangents.cli.main import main
from equitangents.errors import InvalidArgumentError

QUIET = {"off_data": False, "data_test": None, "resamples": 50}
X = np.random.default_rng(0).normal(size=(10, 6, 6, 1)).astype(np.float32)


def test_a_sequential_model_shows_its_layers() -> None:
    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((6, 6, 1)),
            layers.Conv2D(4, 3),
            layers.Dropout(0.5),
            layers.GlobalAveragePooling2D(),
            layers.Dense(3),
        ]
    )
    report = et.audit(model, "C4", X, **QUIET)
    assert report.model.kind == "keras"
    assert report.model.deterministic, "dropout is silent in inference"
    assert [layer.kind for layer in report.layers.layers] == ["Conv2D", "Dropout", "GlobalAveragePooling2D", "Dense"]
    assert report.layers.guilty == report.layers.layers[0].name
    literal = et.audit(lambda x: model.predict_on_batch(x), "C4", X, **QUIET)
    np.testing.assert_allclose(report.errors, literal.errors, rtol=1e-3)


def test_several_outputs_and_one_batch_size() -> None:
    x = keras.Input((6, 6, 1), batch_size=5)
    model = keras.Model(x, {"mean": keras.layers.GlobalAveragePooling2D()(x), "map": keras.layers.Conv2D(1, 1)(x)})
    report = et.audit(model, "C4", X, {"mean": None, "map": "images"}, **QUIET)
    assert report.verdict == "equivariant"
    assert report.timing.evaluations % 5 == 0


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """A network in net.keras, in the working folder."""
    monkeypatch.chdir(tmp_path)
    layers = keras.layers
    model = keras.Sequential([keras.Input((6, 6, 1)), layers.Conv2D(4, 3), layers.GlobalAveragePooling2D()])
    with warnings.catch_warnings():  # of Keras' own, when it writes weights
        warnings.simplefilter("ignore", DeprecationWarning)
        model.save("net.keras")
    np.savez("x.npz", x=X)
    return model


def rewritten(change) -> None:
    """net.keras with `change(config)` made to its configuration."""
    with zipfile.ZipFile("net.keras") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(parts["config.json"])
    change(config)
    parts["config.json"] = json.dumps(config).encode()
    with zipfile.ZipFile("net.keras", "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


def test_a_file_is_loaded_and_audited_from_the_command_line(saved, capsys) -> None:
    np.testing.assert_allclose(load_model("net.keras", trust=True)(X), saved(X), rtol=1e-6)
    with pytest.raises(SystemExit) as stop:
        main(["audit", "net.keras", "--data", "x.npz", "--group", "C4", "--json", "report.json", "--trust"])
    assert stop.value.code in (0, None), capsys.readouterr().err
    with open("report.json", encoding="utf-8") as file:
        assert json.load(file)["model"]["kind"] == "keras"


def test_files_are_loaded_only_if_they_are_trusted(saved) -> None:
    with pytest.raises(InvalidArgumentError, match=r"not loaded: a \.keras file names .* --trust"):
        load_model("net.keras")
    rewritten(lambda config: config["config"]["layers"][1]["config"].update(kernel_initializer=3))
    with pytest.raises(InvalidArgumentError, match="expected a file that Keras loads"):
        load_model("net.keras", trust=True)
