"""`refine` ends at a maximum of the marginal likelihood, or says that it did not."""

from __future__ import annotations

import numpy as np
import pytest

from equitangents import InfiniteEnsemble, InfiniteEnsembleClassifier, actions, nn
from equitangents.ensembles.infinite import refining
from equitangents.errors import InvalidArgumentError, NotPositiveDefiniteError
from equitangents.kernels.engines.reference import run
from equitangents.nn.variants import vary

RNG = np.random.default_rng(3)
X = RNG.normal(size=(24, 2))
Y = np.tanh(X[:, 0]) + 0.3 * RNG.normal(size=24)
NET = vary(nn.Sequential(nn.Dense(1), nn.Erf(), nn.Dense(1)), W_std=1.5, b_std=0.2)


def likelihood(ridge, W_std, b_std):
    net = vary(NET, W_std=W_std, b_std=b_std)
    return InfiniteEnsemble(net, ridge=ridge, kernel="nngp").fit(X, Y).log_marginal_likelihood_


@pytest.mark.parametrize(
    ("slopes", "at_bound", "says"),
    [
        ({"ridge": 1e-4, "W_std": -1e-5}, (), "It is level there"),
        ({"ridge": 1e-4, "W_std": -0.2}, (), "1 % of W_std changes it by 0.002"),
        ({"ridge": 0.3, "W_std": 1e-5, "b_std": 0.0}, ("ridge",), "larger. It is level in W_std and b_std."),
        ({"ridge": 0.3}, ("ridge",), "beyond that the likelihood may be larger."),
    ],
)
def test_its_summary_says_in_what_the_likelihood_is_level(slopes, at_bound, says):
    values = dict.fromkeys(slopes, 1.0)
    found = refining.Refined(InfiniteEnsemble(NET), values, values, -2.0, -1.0, slopes, at_bound, 3)
    assert says in found.summary()


@pytest.mark.slow
def test_it_ends_where_every_neighbour_is_less_likely():
    found = InfiniteEnsemble(NET, ridge=0.01, kernel="nngp").refine(X, Y)
    assert found.converged
    assert not found.note
    assert found.start == pytest.approx({"ridge": 0.01, "W_std": 1.5, "b_std": 0.2})
    top = likelihood(**found.values)
    assert top == pytest.approx(found.log_marginal_likelihood, abs=1e-9)
    assert top > likelihood(**found.start) == pytest.approx(found.start_likelihood, abs=1e-9)
    for name in set(found.values) - set(found.at_bound):
        for factor in (0.9, 1.1):
            assert likelihood(**{**found.values, name: factor * found.values[name]}) < top, name
    assert found.ensemble.ridge == found.values["ridge"]
    assert found.ensemble.log_marginal_likelihood_ == found.log_marginal_likelihood
    assert "It is level there: a maximum near the start" in str(found)


def test_one_that_may_not_take_the_fits_it_needs_says_so():
    found = InfiniteEnsemble(NET, ridge=0.01).refine(X, Y, evaluations=2)
    assert found.evaluations == 2
    assert not found.converged
    assert "It is not level there" in str(found)
    assert str(found).endswith("after the 2 fits that it may take.")


def test_ridge_alone_is_refined_with_augmentation_and_for_classes():
    images = RNG.normal(size=(12, 2, 2, 1))
    flat = nn.Sequential(nn.Flatten(), *NET.layers)
    turned = InfiniteEnsembleClassifier(flat, ridge=0.1, augmentation=actions.image_rotations(2))
    found = turned.fit(images, np.arange(12) % 2).refine()
    assert list(found.values) == ["ridge"]
    assert found.converged
    assert abs(found.ensemble.log_marginal_likelihood_slope_ * found.values["ridge"]) < 1e-3 or found.at_bound
    with pytest.raises(InvalidArgumentError, match="expected 'ridge' alone with augmentation"):
        turned.refine(names=["W_std"])


def test_what_has_no_inverse_on_the_way_ends_the_climb_and_is_told(monkeypatch):
    real, fits = InfiniteEnsemble.fit, []

    def fit(self, *args):
        fits.append(self.ridge)
        if len(fits) > 1:
            raise NotPositiveDefiniteError("the smallest eigenvalue is −1")
        return real(self, *args)

    monkeypatch.setattr(InfiniteEnsemble, "fit", fit)
    found = InfiniteEnsemble(NET, ridge=0.01).refine(X, Y)
    assert found.values == pytest.approx(found.start)
    assert not found.converged
    assert found.note == "It stopped where the kernel matrix has no inverse: the smallest eigenvalue is −1"


def test_a_likelihood_without_a_number_is_no_maximum(monkeypatch):
    monkeypatch.setattr(InfiniteEnsemble, "log_marginal_likelihood_", np.nan)
    with pytest.raises(InvalidArgumentError, match="not a finite number at this ensemble's own values"):
        InfiniteEnsemble(NET, ridge=0.01).refine(X, Y)


def test_what_runs_away_stands_at_its_bound():
    found = InfiniteEnsemble(NET, ridge=1e-3).refine(X, 100 * RNG.normal(size=24), names=["ridge"])
    assert found.at_bound == ("ridge",)
    assert str(found).endswith(
        "ridge moved as far as allowed, by a factor of 10,000; beyond that the likelihood may be larger."
    )
    assert found.values["ridge"] == pytest.approx(1e-3 * refining._RANGE)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["depth"], "name is 'depth'"),
        (["b_std"], "b_std is 0.*; expected a positive start"),
        (["ridge"], "ridge is 0.*; expected a positive start"),
        (["W_std"], r"W_std is \[1\.0, 2\.0\]"),
        (None, "nothing can be refined"),
    ],
)
def test_what_cannot_be_refined_is_said(names, message):
    net = nn.Sequential(nn.Dense(1, W_std=2.0), nn.Erf(), nn.Dense(1))
    with pytest.raises(InvalidArgumentError, match=message):
        InfiniteEnsemble(net).refine(X, Y, names=names)


def test_networks_that_differ_in_their_scales_share_the_program_for_inputs_of_very_different_norm():
    x = np.array([[1e-3, 2e-3], [3.0, 1.0], [-200.0, 100.0]])
    before = run._tile._cache_size()
    for scale in (1.1, 1.2, 1.3):
        assert vary(NET, W_std=scale, b_std=scale / 9).kernel(x).notes
    assert run._tile._cache_size() <= before + 2  # its diagonal blocks may have another shape
