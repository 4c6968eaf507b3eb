"""Law: finite networks are predicted to a file as they are predicted at once."""

import numpy as np
import pytest

import equitangents as et
from equitangents.ensembles import predict_to_file
from equitangents.errors import EquitangentsError

NET = et.nn.Sequential(et.nn.Dense(4), et.nn.Relu(), et.nn.Dense(1))


@pytest.mark.slow
def test_means_and_deviations_of_members_are_written_in_parts(rng, tmp_path):
    x, y, new = rng.normal(size=(6, 3)), rng.normal(size=6), rng.normal(size=(50, 3))
    model = et.DeepEnsemble(NET, members=3, epochs=2).fit(x, y)
    with np.load(predict_to_file(model, new, tmp_path / "new.npz", return_std=True, rows=16)) as found:
        mean, std = model.predict(new, return_std=True)
        np.testing.assert_allclose(found["mean"], mean, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found["std"], std, rtol=1e-4, atol=1e-6)
    with pytest.raises(EquitangentsError, match="does not hold these predictions"):
        predict_to_file(model.extend(4, x, y), new, tmp_path / "new.npz", return_std=True, rows=16)
    with pytest.raises(EquitangentsError, match=r"time is 1\.0; finite networks"):
        predict_to_file(model, new, tmp_path / "other.npz", time=1.0)


@pytest.mark.quick(1)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_inputs_are_standardised_before_they_are_rounded(rng, tmp_path, dtype):
    x, y, new = rng.normal(size=(6, 3)) + 1e7, rng.normal(size=6), rng.normal(size=(9, 3)) + 1e7
    model = et.DeepEnsemble(NET, members=2, epochs=2, standardise=True, dtype=dtype).fit(x, y)
    for i, given in enumerate([new, new.astype(np.float32), new.astype(int)]):
        found = np.load(predict_to_file(model, given, tmp_path / f"{i}.npy"))
        np.testing.assert_array_equal(found, model.predict(given))
    assert not np.array_equal(np.load(tmp_path / "0.npy"), np.load(tmp_path / "1.npy"))


@pytest.mark.slow
def test_models_that_differ_in_their_unit_or_labels_are_told_apart(rng, tmp_path):
    x, new = rng.normal(size=(6, 3)), rng.normal(size=(9, 3))
    settings = {"members": 2, "epochs": 2}
    one, two = (et.DeepEnsemble(NET, standardise=True, **settings).fit(unit * x, x[:, 0]) for unit in (1, 2))
    net = et.nn.Sequential(et.nn.Dense(4), et.nn.Dense(2))
    cat, dog = (et.DeepEnsembleClassifier(net, **settings).fit(x, list(names)) for names in ("abbaab", "cddccd"))
    for i, (before, after) in enumerate([(one, two), (cat, dog)]):
        path = predict_to_file(before, new, tmp_path / f"{i}.npy")
        with pytest.raises(EquitangentsError, match="does not hold these predictions"):
            predict_to_file(after, new, path)
        assert np.array_equal(np.load(predict_to_file(after, new, path, force=True)), after.predict(new))
