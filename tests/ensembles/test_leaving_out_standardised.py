"""Leaving samples out of inputs that are standardised: by whose mean and deviation is said, and can be chosen."""

import numpy as np
import pytest

import equitangents as et

NET = et.nn.Sequential(et.nn.Dense(8), et.nn.Relu(), et.nn.Dense(1, b_std=0.2))


def data(n: int = 12):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2))
    x[0] *= 8
    return x, rng.normal(size=n)


@pytest.mark.parametrize("standardise", [False, True])
def test_refits_standardise_without_the_sample(standardise):
    x, y = data()
    ridge = np.linspace(0.1, 0.4, 12)
    model = et.InfiniteEnsemble(NET, ridge=ridge, standardise=standardise).fit(x, y)
    quick, exact = model.leave_one_out_, model.leave_one_out_refitted()
    for i in range(12):
        kept = np.delete(np.arange(12), i)
        a, b = x[kept], x[i : i + 1]
        if standardise:
            shift, scale = a.mean(axis=0), a.std(axis=0)
            a, b = (a - shift) / scale, (b - shift) / scale
        alone = et.InfiniteEnsemble(NET, ridge=ridge[kept]).fit(a, y[kept])
        assert exact.predictions[i] == pytest.approx(alone.predict(b)[0], abs=1e-8)
    apart = np.abs(quick.predictions - exact.predictions).max() / np.abs(exact.predictions).max()
    said = quick.standardised_by, exact.standardised_by
    if standardise:
        assert said == ("all samples", "the other samples")
        assert apart > 0.01
        assert ("inputs standardised by", "all samples") in quick._facts()
    else:
        assert said == ("nothing", "nothing")
        assert apart < 1e-8


def test_classifiers_and_grids_say_it_too():
    x, y = data()
    labels = np.where(y > 0, "up", "down")
    model = et.InfiniteEnsembleClassifier(NET, ridge=0.1, standardise=True).fit(x, labels)
    exact = model.leave_one_out_refitted()
    units = [found.outputs.standardised_by for found in (model.leave_one_out_, exact)]
    assert units == ["all samples", "the other samples"]
    kept = np.arange(1, 12)
    alone = et.InfiniteEnsembleClassifier(NET, ridge=0.1, standardise=True).fit(x[kept], labels[kept])
    assert exact.predictions[0] == alone.predict(x[:1])[0]
    found = et.InfiniteEnsemble(NET, standardise=True).tune({"ridge": [0.1, 0.2]}, x, y)
    assert ["inputs", "standardised", "by", "all", "samples"] in [line.split() for line in str(found).splitlines()]
    assert et.InfiniteEnsemble(NET).tune({"ridge": [0.1, 0.2]}, x, y).standardised_by == "nothing"
