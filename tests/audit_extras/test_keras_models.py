"""Keras 3 models on JAX: in inference mode, with their layers, of one batch size or any."""

from __future__ import annotations

import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

import equitangents as et

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
