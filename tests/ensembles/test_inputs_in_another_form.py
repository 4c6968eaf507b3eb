"""Arrays in another form than expected are told what they seem to be and what to do; half precision is converted."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import equitangents as et

N = et.nn
RNG = np.random.default_rng(0)
IMAGES, LABELS = RNG.normal(size=(6, 8, 8, 1)), RNG.normal(size=6)
FLAT, TRANSPOSED = IMAGES.reshape(6, -1), np.moveaxis(IMAGES, -1, 1)
MLP = N.Sequential(N.Flatten(), N.Dense(4), N.Relu(), N.Dense(1))
CNN = N.Sequential(N.Conv(4, (3, 3)), N.Relu(), N.GlobalAvgPool(), N.Dense(1))
ROT = et.actions.image_rotations(4)
ALONE = {"off_data": False, "resamples": 50}


def infinite(x: Any, **settings: Any) -> Any:
    return et.InfiniteEnsemble(settings.pop("net", MLP), time=5.0, **settings).fit(x, LABELS)


def deep(x: Any, **settings: Any) -> Any:
    return et.DeepEnsemble(settings.pop("net", MLP), members=1, epochs=1, **settings).fit(x, LABELS)


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("fit", "settings"),
    [
        *((infinite, settings) for settings in ({"augmentation": ROT}, {"augmentation": "C4"}, {"net": CNN})),
        (deep, {"augmentation": "C4"}),
        *(pytest.param(deep, settings, marks=pytest.mark.slow) for settings in ({"augmentation": ROT}, {"net": CNN})),
    ],
)
def test_flat_images_are_told_of_input_shape(fit: Callable[..., Any], settings: dict) -> None:
    with pytest.raises(et.errors.InvalidArgumentError, match=r"[xX] has .*\(6, 64\).*input_shape=\(H, W, C\)"):
        fit(FLAT, **settings)
    fit(FLAT, input_shape=(8, 8, 1), **settings)


@pytest.mark.parametrize("action", ["C4", "D4", ROT])
def test_flat_images_are_told_how_to_become_images(action: Any) -> None:
    f = lambda x: x.reshape(len(x), -1)[:, :3]
    for measure in (et.audit, et.metrics.equivariance_error, et.metrics.relative_orbit_std):
        with pytest.raises(et.errors.InvalidArgumentError, match=r"\(6, 64\).*reshape them to \(N, H, W, C\)"):
            measure(f, action, FLAT)


def test_an_ensemble_that_was_fitted_to_flat_images_is_audited_on_images() -> None:
    report = et.audit(infinite(FLAT), "C4", IMAGES, **ALONE)
    literal = et.audit(infinite(IMAGES), "C4", IMAGES, **ALONE)
    np.testing.assert_allclose(report.errors, literal.errors, rtol=1e-9)


@pytest.mark.quick(1)
@pytest.mark.parametrize("fit", [infinite, deep])
def test_images_with_channels_first_are_told_to_be_transposed(
    fit: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    for augmentation in (ROT, "C4", et.actions.image_rotations(8)):
        message = r"\(6, 1, 8, 8\), which looks like channels first.* \(N, H, W, C\): numpy.moveaxis\([xX], 1, -1\)"
        with pytest.raises(et.errors.ShapeError, match=message):
            fit(TRANSPOSED, augmentation=augmentation)
    caplog.clear()
    fit(TRANSPOSED, augmentation="C2")
    assert "looks like channels first" in caplog.text, "half turns do not mind, but the reader is told"
    caplog.clear()
    fit(IMAGES, augmentation="C2")
    assert "looks like" not in caplog.text
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_actions_and_measures_tell_channels_first_too() -> None:
    for call in (lambda: ROT(1, TRANSPOSED), lambda: et.metrics.relative_orbit_std(lambda x: x, "C4", TRANSPOSED)):
        with pytest.raises(et.errors.ShapeError, match=r"which looks like channels first.*numpy.moveaxis\(x, 1, -1\)"):
            call()
    with pytest.raises(et.errors.ShapeError, match=r"expected square images$"):
        ROT(1, np.zeros((2, 3, 8, 1)))


HALF = [np.float16, ml_dtypes.bfloat16]
F = lambda x: np.asarray(x, np.float64).reshape(len(x), -1)[:, :3] + 3
UNITS = et.actions.linear(et.groups.cyclic(2), np.stack([np.eye(2), -np.eye(2)]))
WATER = np.array([[[0, 0, 0.125], [0, 0.75, -0.5], [0, -0.75, -0.5]]])
ENTRIES: dict[str, Callable[[Any], Any]] = {
    "kernel": lambda x: MLP.kernel(x).ntk,
    "kernel of two": lambda x: CNN.kernel(x, x).nngp,
    "diagonal": lambda x: MLP.kernel_diagonal(x).ntk,
    "jax": lambda x: MLP.kernel(jnp.asarray(x)).ntk,
    "infinite": lambda x: infinite(x, augmentation="C4").predict(x),
    "deep": lambda x: deep(x, augmentation="C4").predict(x),
    "error": lambda x: et.metrics.equivariance_error(F, ROT, x).errors,
    "orbit std": lambda x: et.metrics.relative_orbit_std(F, et.actions.image_rotations(8), x).values,
    "same predictions": lambda x: et.metrics.orbit_same_predictions(F, ROT, x).values,
    "s_dist": lambda x: et.metrics.s_dist(F, lambda x: 2 * F(x), x).values,
    "audit": lambda x: et.audit(F, "C4", x, **ALONE).errors,
    "audit of rotations": lambda x: et.audit(F, "C8", x, **ALONE).errors,
    "turns": lambda x: et.actions.image_rotations(8)(1, x),
    "sphere": lambda x: et.sphere.to_grid(x.reshape(6, 64)[:, :16, None]),
    "vectors": lambda x: UNITS(1, x.reshape(-1, 2)),
    "molecules": lambda x: et.molecules.Molecules(np.array([[8, 1, 1]]), WATER.astype(x.dtype)).positions,
}


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("entry", "dtype"),
    [*((entry, ml_dtypes.bfloat16) for entry in ENTRIES.values()), (ENTRIES["kernel"], np.float16)],
    ids=[*ENTRIES, "kernel of float16"],
)
def test_half_precision_gives_what_the_same_numbers_give_in_single(
    entry: Callable[[Any], Any], dtype: Any, caplog: pytest.LogCaptureFixture
) -> None:
    x = IMAGES.astype(dtype)
    with caplog.at_level(logging.INFO, "equitangents"):
        found = np.asarray(entry(x))
    assert f"has dtype {np.dtype(dtype)}; it is converted to float32" in caplog.text
    np.testing.assert_array_equal(found, np.asarray(entry(x.astype(np.float32))))
    assert found.dtype.name in ("float32", "float64")


@pytest.mark.parametrize("dtype", HALF)
def test_outputs_in_half_precision_have_its_floor(dtype: Any) -> None:
    f = lambda x: (x.sum((1, 2)) + 100 * np.abs(x).sum((1, 2)) ** 0.5 + x[:, 0, 0] * 1e-4).astype(dtype)
    report = et.audit(f, "C4", IMAGES, **ALONE)
    assert report.model.dtype == np.dtype(dtype).name
    assert report.headline.floor > 0.01  # of the spread: outputs of some 500 are rounded to 0.25 at best
    assert report.verdict == "equivariant", report.sentence  # which copies without rounding decide: off by 1e-4 at most


MOLECULES = [np.zeros((2, 3)), np.ones((3, 3))]


@pytest.mark.parametrize(
    "use",
    [
        lambda m: et.audit(lambda x: x, "SO3", m),
        lambda m: et.audit(lambda x: x, "SO3", (m, np.ones(2)), inputs=("vectors", None)),
        lambda m: et.audit(lambda x: x, "SO3", np.array(m, dtype=object)),
        lambda m: et.InfiniteEnsemble(MLP).fit(m, [0.0, 1.0]),
        lambda m: et.DeepEnsemble(MLP).fit(m, [0.0, 1.0]),
        lambda m: et.molecules.Molecules([[1, 1], [1, 1, 8]], m),
    ],
)
def test_molecules_of_different_sizes_are_told_to_be_filled_up(use: Callable[[Any], Any]) -> None:
    with pytest.raises(et.errors.ShapeError, match=r"(?s)(fill .*up|pad .*) with zeros") as raised:
        use(MOLECULES)
    assert "inhomogeneous" not in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("use", [lambda m: et.audit(lambda x: x, "SO3", m), lambda m: infinite(m)])
def test_molecules_themselves_are_no_array(use: Callable[[Any], Any]) -> None:
    with pytest.raises(et.errors.InvalidTypeError, match=r"of type Molecules.*its arrays"):
        use(et.molecules.Molecules(np.array([[8, 1, 1]]), WATER))


def masked(values: np.ndarray, *, hides: bool) -> Any:
    mask = np.zeros(values.shape, bool)
    mask.flat[1] = hides
    return np.ma.masked_array(values, mask=mask)


TAKES_ARRAYS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "infinite": lambda x, y, _: infinite_of(x, y).predict(FLAT),
    "deep": lambda x, y, _: et.DeepEnsemble(MLP, members=1, epochs=1).fit(x, y).predict(FLAT),
    "kernel": lambda x, y, _: MLP.kernel(x).ntk,
    "store": lambda x, y, path: np.asarray(et.scale.GramStore(path / "store", MLP, x).compute().ntk),
    "file": lambda x, y, path: np.load(et.ensembles.predict_to_file(infinite_of(FLAT, LABELS), x, path / "mean.npy")),
}


def infinite_of(x: Any, y: Any) -> Any:
    return et.InfiniteEnsemble(MLP, ridge=0.1).fit(x, y)


@pytest.mark.quick(1)
@pytest.mark.parametrize("taker", TAKES_ARRAYS)
def test_masked_entries_are_no_numbers_and_masks_that_hide_nothing_are_no_matter(taker: str, tmp_path: Any) -> None:
    take = TAKES_ARRAYS[taker]
    whole = take(FLAT, LABELS, tmp_path / "a")
    found = take(masked(FLAT, hides=False), masked(LABELS, hides=False), tmp_path / "b")
    np.testing.assert_array_equal(found, whole)
    with pytest.raises(et.errors.InvalidArgumentError, match=r"^[xX]1? has masked entries, the first at index"):
        take(masked(FLAT, hides=True), LABELS, tmp_path / "c")
    if taker in ("infinite", "deep"):
        with pytest.raises(et.errors.InvalidArgumentError, match=r"^y has masked entries"):
            take(FLAT, masked(LABELS, hides=True), tmp_path)


@pytest.mark.parametrize("made", [et.InfiniteEnsemble, et.InfiniteEnsembleClassifier, et.DeepEnsemble])
def test_masked_inputs_are_refused_by_name(made):
    x = np.random.default_rng(0).normal(size=(4, 3, 2))
    net = N.Sequential(N.Dense(8), N.Relu(), N.GlobalAvgPool(), N.Dense(1))
    with pytest.raises(et.errors.InvalidTypeError, match=r"X is Masked; expected arrays; solve with net\.kernel"):
        made(net).fit(et.Masked(x, np.ones((4, 3), bool)), np.arange(4) % 2)


def test_masks_and_graphs_are_taken_for_no_list_of_arrays(tmp_path):
    x = np.random.default_rng(0).normal(size=(4, 3, 2))
    net = N.Sequential(N.Dense(8), N.Relu(), N.GlobalAvgPool(), N.Dense(1))
    model = et.InfiniteEnsemble(net).fit(x, np.arange(4))
    for given in (et.Masked(x, np.ones((4, 3), bool)), et.Graphs(x, np.ones((4, 3, 3)))):
        faces = (
            lambda given=given: et.InfiniteEnsemble(net).fit(x, given),
            lambda given=given: et.InfiniteEnsemble(net, ridge=given).fit(x, np.arange(4)),
            lambda given=given: et.InfiniteEnsembleClassifier(net).fit(x, given),
            lambda given=given: et.ensembles.predict_to_file(model, given, tmp_path / "means.npy"),
            lambda given=given: et.scale.GramStore(tmp_path / "store", net, given),
        )
        for face in faces:
            with pytest.raises(
                et.errors.EquitangentsError, match=f"is of type {type(given).__name__}; expected an array"
            ):
                face()
