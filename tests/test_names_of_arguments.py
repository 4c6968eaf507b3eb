"""One name for one thing: arguments that mean the same have one name, and `progress` means the same everywhere."""

import inspect

import numpy as np
import pytest
import sklearn

import equitangents as et
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.keywords import named_also

X = np.random.default_rng(0).normal(size=(12, 3))
NET = et.nn.Sequential(et.nn.Dense(1), et.nn.Relu(), et.nn.Dense(1))


def test_a_second_name_of_an_argument():
    @named_also(X="x")
    def rows(x):
        return len(x)

    assert rows(X) == rows(x=X) == rows(X=X) == 12
    with pytest.raises(InvalidArgumentError, match="x is given and so is 'X'"):
        rows(X, X=X)


@pytest.mark.quick(1)
@pytest.mark.parametrize("cls", [et.InfiniteEnsemble, et.InfiniteEnsembleClassifier, et.DeepEnsemble])
def test_estimators_take_x_and_the_name_that_scikit_learn_has_for_it(cls):
    y = np.arange(12) % 2
    short = {} if cls is not et.DeepEnsemble else {"members": 2, "epochs": 1}
    models = [cls(NET, **short).fit(X, y), cls(NET, **short).fit(x=X, y=y), cls(NET, **short).fit(X=X, y=y)]
    told = [m.predict(**{name: X}) for m in models for name in ("x", "X")] + [models[0].predict(X)]
    assert all(np.array_equal(one, told[0]) for one in told)
    assert models[0].score(X=X, y=y) == models[0].score(x=X, y=y)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = models[0].get_metadata_routing()
        assert all("x" not in getattr(routed, method).requests for method in ("fit", "predict", "score"))


SAME_AS = {  # what arguments are called elsewhere, and here
    "workers": "executor", "n_jobs": "executor", "method": "solver", "field": "kernel", "network": "net",
    "n_members": "members", "n_estimators": "members", "random_state": "seed", "inputs": "x", "verbose": "progress",
}  # fmt: skip
OTHERWISE = {  # where such a name means something else
    "torch.Ensemble": "method",
    "torch.EnsembleClassifier": "method",
    "baselines.BaselineProblem": "batch",
    "baselines.run": "inputs",
    "systems.compare_architectures": "inputs",
}


def called_in(subpackage):
    """Functions, classes and their methods that a subpackage names, by name."""
    module = getattr(et, subpackage)
    for name in module.__all__:
        called = getattr(module, name)
        yield name, called
        if inspect.isclass(called):
            own = ((method, getattr(called, method)) for method in dir(called) if not method.startswith("_"))
            yield from ((f"{name}.{method}", it) for method, it in own if inspect.isroutine(it))


@pytest.mark.parametrize("subpackage", [n for n in et.__all__ if inspect.ismodule(getattr(et, n))])
def test_arguments_have_one_name_in_every_subpackage(subpackage):
    for name, called in called_in(subpackage):
        if callable(called) and not (inspect.isclass(called) and issubclass(called, (BaseException, tuple))):
            try:
                parameters = inspect.signature(called).parameters
            except ValueError:  # of a type alias
                continue
            # irreps of groups are over a field of numbers
            otherwise = "field" if name.endswith("Group.irreps") else OTHERWISE.get(f"{subpackage}.{name}", "")
            other = set(SAME_AS) & set(parameters) - set(otherwise.split())
            assert not other, f"{subpackage}.{name}: {[SAME_AS[p] for p in other]}"


def test_layers_show_their_own_arguments():
    assert list(inspect.signature(et.nn.AvgPool).parameters) == ["window", "stride", "padding"]
    assert list(inspect.signature(et.nn.LeakyRelu).parameters) == ["negative_slope"]


class TestProgress:
    def test_is_a_line_or_a_function(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr("equitangents.progress._REPORTED", 0.0)
        told = []
        store = et.scale.GramStore(tmp_path / "a", NET, X, tile=4)
        for call in (
            lambda: store.compute(progress="yes"),
            lambda: et.audit(lambda x: x, "C4", X, progress="yes"),
            lambda: et.DeepEnsemble(NET, progress="yes").fit(X, X[:, 0]),
        ):
            with pytest.raises(InvalidTypeError, match="progress"):
                call()
        store.compute(progress=lambda *now: told.append(now))
        assert [now[:2] for now in told] == [(i, 6) for i in range(1, 7)]
        assert capsys.readouterr().err == ""
        et.scale.GramStore(tmp_path / "b", NET, X, tile=4).compute(progress=True)
        assert "gram: 1 of 6 tiles" in capsys.readouterr().err

    def test_of_an_audit_may_be_a_function(self, capsys):
        told = []
        f = lambda x: x.sum(axis=(1, 2, 3))[:, None]
        x = np.random.default_rng(0).normal(size=(6, 4, 4, 1))
        et.audit(f, "C4", x, effort="quick", progress=lambda *now: told.append(now))
        done = np.array([now[0] for now in told])
        assert len(done) > 1
        assert np.all(np.diff(done) >= 0)
        assert capsys.readouterr().err == ""

    @pytest.mark.quick(1)
    def test_of_an_ensemble_may_be_a_function(self, tmp_path):
        told = []
        deep = et.DeepEnsemble(NET, members=2, epochs=3, progress=lambda *now: told.append(now))
        deep.fit(X, X[:, 0])
        done = np.array([now[:2] for now in told])
        assert done[-1].tolist() == [3, 3]
        assert np.all(np.diff(done[:, 0]) >= 0)
        plain = et.DeepEnsemble(NET, members=2, epochs=3).fit(X, X[:, 0])
        np.testing.assert_allclose(deep.predict(X), plain.predict(X), rtol=1e-5, atol=1e-7)
        deep.save(tmp_path / "saved")
        assert et.DeepEnsemble.load(tmp_path / "saved").progress is False
