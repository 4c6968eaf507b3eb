"""One name for one thing: former names of arguments warn and go on, and `progress` means the same everywhere."""

import dataclasses
import importlib
import inspect
import pickle

import numpy as np
import pytest
import sklearn

import equitangents as et
import equitangents_studies.systems.power_laws  # noqa: F401 (one of whose arguments is tried here)
from equitangents import statistics, systems
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.keywords import SAME_AS, named_also, renamed
from equitangents.solvers.matrices import KernelMatrix
from equitangents_studies.verdict import Verdict

X = np.random.default_rng(0).normal(size=(12, 3))
NET = et.nn.Sequential(et.nn.Dense(1), et.nn.Relu(), et.nn.Dense(1))
NTK = np.asarray(NET.kernel(X).ntk)


def test_a_former_name_warns_at_the_call_and_gives_the_same():
    with pytest.warns(DeprecationWarning, match="level of bootstrap is now confidence") as seen:
        old = statistics.bootstrap(X[:, 0], level=0.8)
    assert seen[0].filename == __file__
    assert old == statistics.bootstrap(X[:, 0], confidence=0.8) != statistics.bootstrap(X[:, 0])
    assert "confidence" in inspect.signature(statistics.bootstrap).parameters


def test_both_names_at_once_are_refused():
    with pytest.raises(InvalidArgumentError, match="confidence and level"):
        statistics.bootstrap(X[:, 0], level=0.8, confidence=0.8)


def test_methods_too():
    class Thing:
        @renamed(method="solver")
        def __init__(self, solver=None):
            self.solver = solver

    with pytest.warns(DeprecationWarning, match="method"):
        assert Thing(method=3).solver == 3
    assert Thing(4).solver == 4


def test_a_name_that_means_something_else_now_is_known_by_its_values():
    theta = KernelMatrix(NET, X, kernel="nngp")
    with pytest.warns(DeprecationWarning, match="kernel of KernelMatrix is now net"):
        np.testing.assert_array_equal(KernelMatrix(kernel=NET, x=X).diagonal(), NTK.diagonal())
    with pytest.warns(DeprecationWarning, match="field of KernelMatrix is now kernel"):
        np.testing.assert_array_equal(KernelMatrix(NET, X, field="nngp").diagonal(), theta.diagonal())
    with pytest.raises(InvalidArgumentError, match="net and kernel"):
        KernelMatrix(NET, kernel=NET, x=X)


def test_a_second_name_that_stays_does_not_warn():
    @named_also(X="x")
    def rows(x):
        return len(x)

    assert rows(X) == rows(x=X) == rows(X=X) == 12
    with pytest.raises(InvalidArgumentError, match="x and X, another name of it"):
        rows(X, X=X)


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


def test_fields_of_records_have_their_former_names_too():
    found = statistics.Estimate(1.0, 0.5, 2.0, confidence=0.9)
    with pytest.warns(DeprecationWarning, match="level of Estimate is now confidence"):
        assert statistics.Estimate(1.0, 0.5, 2.0, level=0.9) == found
    with pytest.warns(DeprecationWarning, match=r"Estimate\.level is now confidence") as seen:
        assert found.level == 0.9
    assert seen[0].filename == __file__
    verdict = Verdict("a", "holds", "m", "c", 1.0, (0.5, 2.0), "ours", 0.9, numbers={"n": found})
    assert verdict.to_dict()["level"] == 0.9  # files keep the names that they had at first
    assert Verdict.from_dict(verdict.to_dict()) == verdict
    assert pickle.loads(pickle.dumps(found)) == dataclasses.replace(found, confidence=0.9)


def what_is_called(place):
    found = importlib.import_module("equitangents")
    for part in place.split("."):
        found = getattr(found, part)
    return inspect.signature(found).parameters


@pytest.mark.parametrize(
    ("place", "now", "before"),
    [
        ("scale.GramStore.compute", "executor", "workers"),
        ("scale.GramStore.verify", "executor", "workers"),
        ("scale.GramStore.irreps", "kernel", "field"),
        ("testing.assert_equivariant", "f", "model"),
        ("ensembles.predict_to_file", "ensemble", "model"),
        ("kernels.kernel_invariance_error", "net", "kernel"),
        ("inference.pull_over_time", "matrix", "kernel"),
        ("solvers.solve", "kernel", "field"),
        ("scale.estimate", "input_shape", "shape"),
        ("systems.symmetry_table", "infinite", "kernel"),
        ("systems.power_laws.PowerLaw", "confidence", "level"),
        ("nn.Sequential.kernel_cost", "input_shape", "shape"),
        ("nn.Sequential.kernel_field_cost", "input_shape", "shape"),
        ("solvers.matrices.KernelMatrix", "kernel", "field"),
        ("solvers.solving.Solver", "solver", "method"),
        ("InfiniteEnsemble.sample", "count", "n"),
        ("InfiniteEnsemble.sample_orbits", "count", "n"),
        ("ensembles.BaggedInfiniteEnsemble.sample", "count", "n"),
        ("data.gaussian_noise", "count", "n"),
        ("data.photo_patches", "count", "n"),
        ("systems.textures", "count", "samples"),
    ],
)
def test_arguments_that_have_another_name_now(place, now, before):
    called = what_is_called(place)
    assert now in called
    assert before not in called
    function = et
    for part in place.split("."):
        function = getattr(function, part)
    with pytest.warns(DeprecationWarning, match=f"{before} of .* is now {now}"), pytest.raises((TypeError, ValueError)):
        function(**{before: object()})  # nothing else is given


@pytest.mark.parametrize("room", [statistics, systems, et.metrics], ids=lambda room: room.__name__)
def test_no_public_function_calls_the_share_that_intervals_cover_a_level(room):
    tests = {"algorithmic_symmetry"}  # whose level is the share of false alarms
    functions = {name: getattr(room, name) for name in dir(room) if inspect.isfunction(getattr(room, name))}
    found = {name for name, f in functions.items() if "level" in inspect.signature(f).parameters}
    assert found == (tests if room is systems else set())


OTHER_NAMES = set(SAME_AS) - {"label_action", "output_action", "level", "shape", "model"}  # which mean something, too
OTHERWISE = {  # where such a name means something else
    "systems.algorithmic_symmetry": "method",
    "torch.Ensemble": "method",
    "torch.EnsembleClassifier": "method",
    "audit.Reading": "method inputs",
    "audit.irreps_by_layer": "inputs",
    "contenders.Problem": "batch",
    "contenders.run": "inputs",
    "systems.compare_architectures": "inputs",
}


def called_in(room):
    """Functions, classes and their methods that a room names, by name."""
    module = getattr(et, room)
    for name in set(module.__all__) - {"renamed"}:
        called = getattr(module, name)
        yield name, called
        if inspect.isclass(called):
            own = ((method, getattr(called, method)) for method in dir(called) if not method.startswith("_"))
            yield from ((f"{name}.{method}", it) for method, it in own if inspect.isroutine(it))


@pytest.mark.parametrize("room", [n for n in et.__all__ if inspect.ismodule(getattr(et, n))])
def test_arguments_have_one_name_in_every_room(room):
    for name, called in called_in(room):
        if callable(called) and not (inspect.isclass(called) and issubclass(called, (BaseException, tuple))):
            try:
                parameters = inspect.signature(called).parameters
            except ValueError:  # of a type alias
                continue
            # irreps of groups are over a field of numbers
            otherwise = "field" if name.endswith("Group.irreps") else OTHERWISE.get(f"{room}.{name}", "")
            other = OTHER_NAMES & set(parameters) - set(otherwise.split())
            assert not other, f"{room}.{name}: {[SAME_AS[p] for p in other]}"


def test_what_an_argument_is_called_elsewhere_is_understood():
    for call, said in (
        (lambda: et.InfiniteEnsemble(NET, output_action=None), "label_action"),
        (lambda: et.audit(lambda x: x, "C4", X, label_action=None), "output_action"),
        (lambda: et.DeepEnsemble(NET, n_estimators=3), "members"),
        (lambda: et.DeepEnsemble(NET, random_state=3), "seed"),
    ):
        with pytest.raises(InvalidTypeError, match=f"did you mean '{said}'"):
            call()


class TestProgress:
    def test_is_a_line_or_a_function(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr("equitangents.scale.progress._REPORTED", 0.0)
        told = []
        et.scale.GramStore(tmp_path / "a", NET, X, tile=4).compute(progress=lambda *now: told.append(now))
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

    @pytest.mark.parametrize(("given", "pieces"), [({}, 3), ({"members_per_chunk": 1, "executor": 1}, 2)])
    def test_of_an_ensemble_may_be_a_function(self, given, pieces, tmp_path):
        told = []
        deep = et.DeepEnsemble(NET, members=2, epochs=3, progress=lambda *now: told.append(now), **given)
        deep.fit(X, X[:, 0])
        done = np.array([now[:2] for now in told])
        assert done[-1].tolist() == [pieces, pieces]
        assert np.all(np.diff(done[:, 0]) >= 0)
        plain = et.DeepEnsemble(NET, members=2, epochs=3).fit(X, X[:, 0])
        np.testing.assert_array_equal(deep.predict(X), plain.predict(X))
        deep.save(tmp_path / "saved")
        assert et.DeepEnsemble.load(tmp_path / "saved").progress is False

    def test_is_refused_before_anything_is_computed(self, tmp_path):
        store = et.scale.GramStore(tmp_path / "k", NET, X, tile=4)
        with pytest.raises(InvalidTypeError, match="progress is 'yes'"):
            store.compute(progress="yes")
        with pytest.raises(InvalidTypeError, match="progress"):
            et.audit(lambda x: x, "C4", X, progress="yes")
        with pytest.raises(InvalidTypeError, match="progress"):
            et.DeepEnsemble(NET, progress="yes").fit(X, X[:, 0])
