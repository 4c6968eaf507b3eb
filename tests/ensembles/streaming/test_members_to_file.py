"""Law: finite networks are predicted to a file as they are predicted at once."""

import numpy as np
import pytest

import equitangents as et
from equitangents.ensembles import predict_to_file
from equitangents.errors import EquitangentsError

NET = et.nn.Sequential(et.nn.Dense(4), et.nn.Relu(), et.nn.Dense(1))


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
