"""Baselines are found by name, one's own too; what is wrong with one is named, and so is it."""

from types import SimpleNamespace

import numpy as np
import pytest

from equitangents import baselines
from equitangents.errors import InvalidArgumentError
from equitangents_studies.baselines.baseline import Entry

PROBLEM = baselines.BaselineProblem("C4", (4, 4, 1), 3)
X = np.random.default_rng(0).normal(size=(9, 4, 4, 1)).astype(np.float32)
Y = np.arange(9) % 3


class NearestMean:
    """A baseline of one's own."""

    def fit(self, x, y):
        self.means = np.stack([x[y == k].mean(axis=0) for k in range(3)])

    def predict(self, x):
        return -((x[:, None] - self.means) ** 2).sum(axis=(2, 3, 4))


def answering(answer):
    class Answer(NearestMean):
        def predict(self, x):
            return answer(x)

    return Entry("mine", "mine", Answer)


def run(entry):
    return baselines.run(entry, PROBLEM, X, Y, {"test": X})


class TestNames:
    def test_every_baseline_is_found_and_made(self):
        for name in baselines.names():
            made = baselines.find(name).make(PROBLEM)
            assert callable(made.fit)
            assert callable(made.predict)
        assert "C8" in baselines.find("invariant-kernel").unavailable(baselines.BaselineProblem("C8", (4, 4, 1), 3))

    def test_ones_own_is_fitted_and_measured(self):
        outcome = run(baselines.find(f"{__name__}:NearestMean"))
        assert (outcome.labels["test"] == Y).all()
        assert np.isnan(outcome.parameters)
        assert outcome.training_seconds >= 0

    def test_a_factory_that_needs_the_problem_gets_it_and_makes_what_can_be_fitted(self):
        seen = []

        def factory(problem):
            seen.append(problem)
            return NearestMean()

        Entry("told", "told", factory).make(PROBLEM)
        assert seen == [PROBLEM]
        with pytest.raises(InvalidArgumentError, match=r"expected fit\(x, y\) and predict\(x\); mine"):
            Entry("mine", "mine", dict).make(PROBLEM)

    def test_ones_own_module_in_the_current_folder(self, tmp_path, monkeypatch):
        (tmp_path / "my_baseline_module.py").write_text(
            "class Zero:\n    def fit(self, x, y): pass\n    def predict(self, x): return [0] * len(x)\n"
        )
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("sys.path", [p for p in __import__("sys").path])
        assert (run(baselines.find("my_baseline_module:Zero")).labels["test"] == 0).all()

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("gcn", "baseline is 'gcn'; expected 'plain', 'augmented'"),
            ("no_such_module_at_all:Model", "module:Name that can be imported; No module named"),
            ("math:Model", "module:Name that can be imported; .*no attribute"),
            ("math:pi", "a class or function that makes one"),
            (":Model", "module:Name that can be imported"),
        ],
    )
    def test_a_name_that_leads_nowhere_says_where(self, name, message):
        with pytest.raises(InvalidArgumentError, match=message):
            baselines.find(name)


class TestOutputs:
    def test_scores_and_labels_are_both_predictions(self):
        assert (run(answering(lambda x: np.eye(3)[Y])).labels["test"] == Y).all()
        assert (run(answering(lambda x: Y.astype(float))).labels["test"] == Y).all()
        found = baselines.run(answering(lambda x: np.zeros(len(x), int)), PROBLEM, X, Y, {"none": X[:0]})
        assert found.labels["none"].shape == (0,)

    def test_parameters_of_a_torch_module_are_counted(self):
        class Module(NearestMean):
            def parameters(self):
                return iter([SimpleNamespace(numel=lambda: 3), SimpleNamespace(numel=lambda: 4)])

        assert run(Entry("mine", "mine", Module)).parameters == 7

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            (lambda x: np.zeros((9, 4)), r"'mine'.*\(9, 4\).*expected scores \(9, 3\)"),
            (lambda x: np.zeros(4), r"predicts \(\(4,\)"),
            (lambda x: np.full((9, 3), np.nan), "NaN or infinite numbers"),
            (lambda x: Y + 1, r"labels from, to \(1.0, 3.0\)"),
            (lambda x: Y + 0.5, "from 0 to 2"),
            (lambda x: ["a"] * 9, "<U1"),
        ],
    )
    def test_outputs_that_are_no_predictions_are_named(self, answer, message):
        with pytest.raises(InvalidArgumentError, match=message):
            run(answering(answer))
