"""The comparison: on one's own arrays, with one's own model, and what its page concludes from numbers."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from equitangents import baselines, data, studies
from equitangents.errors import InvalidArgumentError, NotFiniteError, ShapeError
from equitangents_studies.common.scores import table_mean
from equitangents_studies.comparison.page import HEADER, claims
from equitangents_studies.comparison.study import ComparisonResults, ComparisonSettings, _budget, good_enough, lag

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def numbers_of_its_own(monkeypatch):
    """A test's random numbers do not depend on the tests before it."""
    monkeypatch.setitem(globals(), "RNG", np.random.default_rng(0))


def archive(path, **arrays):
    np.savez(path, **arrays)
    return str(path)


@pytest.fixture
def own(tmp_path):
    x = RNG.integers(0, 256, size=(40, 8, 8), dtype=np.uint8)
    return archive(tmp_path / "mine.npz", x=x, y=np.array(["cat", "dog"] * 20))


ZEROS = np.zeros((4, 4, 4))


class TestOwnArrays:
    def test_a_quarter_of_every_class_is_the_test_set(self, own):
        found = data.load_own(own)
        assert found.class_names == ("cat", "dog")
        assert (len(found.train_x), len(found.test_x), found.test_y.sum()) == (30, 10, 5)
        assert found.train_x.max() <= 1
        assert not (found.test_x[:, None] == found.train_x[None]).all(axis=(2, 3, 4)).any()

    def test_test_images_that_are_given_are_the_test_set(self, tmp_path):
        x, y = RNG.normal(size=(6, 4, 4, 3)), np.arange(6) % 2
        found = data.load_own(archive(tmp_path / "a.npz", x=x, y=y, x_test=x[:2], y_test=y[:2]))
        assert (len(found.train_x), len(found.test_x)) == (6, 2)
        one = data.load_own(archive(tmp_path / "b.npz", x=x[:1], y=y[:1], x_test=x[1:2], y_test=y[1:2]))
        assert len(one.train_x) == 1

    @pytest.mark.parametrize(
        ("arrays", "error", "message"),
        [
            ({"x": np.zeros((4, 4, 4))}, InvalidArgumentError, "expected 'y'; it holds x"),
            ({"x": np.zeros((4, 4)), "y": np.arange(4)}, ShapeError, r"\(4, 4\)\); expected numbers \(N, H, W\)"),
            ({"x": np.zeros((4, 4, 4)), "y": np.arange(3)}, ShapeError, r"expected \(4,\); a label for each image"),
            ({"x": np.zeros((4, 4, 4)), "y": np.zeros(4)}, InvalidArgumentError, r"one class, 0\.0;"),
            ({"x": np.ones((4, 4, 4)), "y": np.arange(4)}, InvalidArgumentError, "the same image this many times: 4"),
            ({"x": np.full((4, 4, 4), np.nan), "y": np.arange(4)}, NotFiniteError, "NaN"),
            ({"x": ZEROS, "y": np.arange(4), "x_test": ZEROS[:1]}, InvalidArgumentError, "y_test"),
            (None, InvalidArgumentError, "expected a file"),
        ],
    )
    def test_arrays_that_do_not_fit_are_named(self, arrays, error, message, tmp_path):
        with pytest.raises(error, match=message):
            data.load_own(archive(tmp_path / "bad.npz", **arrays) if arrays else "nowhere.npz")


class Brightness:
    """Is the upper left corner bright?"""

    parameters = 1

    def fit(self, x, y):
        self.edge = np.median(x[:, 0, 0, 0])

    def predict(self, x):
        return (x[:, 0, 0, 0] > self.edge).astype(int)


OWN = f"{__name__}:Brightness"


class TestOwnModel:
    @pytest.mark.slow
    @pytest.mark.parametrize(("group", "models"), [("D4", [OWN]), ("C8", [OWN, "resampling noise floor"])])
    def test_it_gets_a_row_on_ones_own_arrays(self, group, models, own, tmp_path):
        settings = {"data": own, "group": group, "baselines": OWN, "foreign": "noise"}
        result = studies.run("comparison", out=tmp_path / "run", settings=settings, progress=False)
        assert not list(result.folder.rglob("small-*")), "small networks are compared with gcnn alone"
        shown = json.loads((result.folder / "report.json").read_text(encoding="utf-8"))["shown"]
        (rows,) = (item["rows"] for item in shown if item.get("header") == list(HEADER))
        assert [row[0] for row in rows] == [name.rpartition(":")[2] for name in models]
        assert "Differences from the best baseline" in result.report.read_text(encoding="utf-8")

    @pytest.mark.slow
    def test_a_file_that_changed_is_not_gone_on_with(self, own, tmp_path):
        how = {"data": own, "baselines": OWN, "shrink": "()", "foreign": "noise"}
        studies.run("comparison", out=tmp_path / "run", settings=how, progress=False)
        archive(own, x=RNG.integers(0, 256, size=(40, 8, 8), dtype=np.uint8), y=np.arange(40) % 2)
        with pytest.raises(InvalidArgumentError, match="changed since the run began"):
            studies.run("comparison", out=tmp_path / "run", settings=how, progress=False, resume=True)


def made(tables, order=4):
    """Results whose baselines' labels are given: (R, |G|, N) for the test set and for noise, true class 0."""
    sets = {"test": None, "noise": None}
    images = SimpleNamespace(sets=sets, titles={"test": "tests", "noise": "noise"}, test_y=np.zeros(200, int))
    labels = {name: dict(zip(sets, pair, strict=True)) for name, pair in tables.items()}
    costs = {
        name: {"training_seconds": np.ones(5) * i, "inference_seconds": np.ones(5)} for i, name in enumerate(tables)
    }
    problem = baselines.BaselineProblem(f"C{order}", (4, 4, 1), 2)
    titles = {name: name for name in tables}
    return ComparisonResults(images, problem, titles, labels, costs, {}, {}, {})


def random_labels(wrong):
    y = (RNG.random((5, 1, 200)) < wrong).astype(int)
    return np.repeat(y, 4, axis=1), np.repeat(y, 4, axis=1)


def at(rates, repetitions, seed=0):
    """Baselines from cheap to dear with these rates of error, shared but for a little, in so many repetitions."""
    rng = np.random.default_rng(seed)
    hard = rng.random((repetitions, 1, 200))
    y = lambda rate: np.repeat((hard + 0.02 * rng.normal(size=hard.shape) < rate).astype(int), 4, axis=1)
    return made({f"{i} at {rate}": (labels := y(rate), labels) for i, rate in enumerate(rates)})


def chosen(results, tolerated=0.02):
    """The cheapest that is shown to lose little accuracy."""
    return min(good_enough(ComparisonSettings(tolerated=tolerated), results, "rotated"), key=results.cost)


class TestRecommendation:
    """The cheapest whose paired difference from the best has an interval that lies above the tolerated loss."""

    def test_a_cheap_one_that_loses_little_is_taken_and_one_that_loses_more_is_not(self):
        assert chosen(at((0.30, 0.101, 0.102, 0.10), 20), 0.03) == "1 at 0.101"

    @pytest.mark.parametrize("seed", range(4))
    def test_fewer_repetitions_never_make_it_cheaper(self, seed):
        """Of the same means and spreads: every repetition once, or four times."""
        rng = np.random.default_rng(seed)
        few = at(tuple(rng.choice([0.1, 0.11, 0.13, 0.2], 4)), int(rng.integers(1, 6)), seed)
        many = replace(
            few, labels={n: {s: np.tile(y, (4, 1, 1)) for s, y in of.items()} for n, of in few.labels.items()}
        )
        for measure in ("rotated", "outside"):
            enough = [good_enough(ComparisonSettings(tolerated=0.03), results, measure) for results in (few, many)]
            assert set(enough[0]) <= set(enough[1])
            costs = [min(np.median(few.costs[name]["training_seconds"]) for name in names) for names in enough]
            assert costs[0] >= costs[1]

    @pytest.mark.quick(1)
    @pytest.mark.parametrize("repetitions", [2, 5, 20])
    def test_thinned_to_any_number_of_repetitions_it_rarely_takes_one_that_loses_too_much(self, repetitions):
        """The cheap one loses twice what is tolerated; taken by chance in at most 5 %, however few there are."""
        wrong = [
            "0 at 0.14" in good_enough(ComparisonSettings(), at((0.14, 0.10), repetitions, seed), "rotated")
            for seed in range(150)
        ]
        assert np.mean(wrong) <= 0.05

    @pytest.mark.parametrize(("rates", "repetitions"), [((0.11, 0.10), 2), ((0.105, 0.10, 0.11), 1)])
    def test_few_repetitions_show_little_and_the_best_is_taken(self, rates, repetitions):
        results = at(rates, repetitions)
        best = max(results.labels, key=lambda name: results.estimate(results.labels[name], "rotated").value)
        assert chosen(results) == best
        assert repetitions > 1 or good_enough(ComparisonSettings(), results, "rotated") == [best]

    def test_one_that_answers_as_the_best_on_every_input_loses_nothing_and_is_taken_if_inputs_are_many(self):
        labels = random_labels(0.1)
        results = made({"cheap": labels, "dear": labels})
        assert chosen(results) == "cheap"
        assert lag(results, "rotated", "dear").value == 0
        few = {name: {s: y[..., :20] for s, y in of.items()} for name, of in results.labels.items()}
        images = SimpleNamespace(**{**vars(results.images), "test_y": np.zeros(20, int)})
        assert good_enough(ComparisonSettings(), replace(results, labels=few, images=images), "rotated") == ["cheap"]


class TestConclusions:
    def test_small_networks_that_cost_more_than_the_equivariant_one_are_left_out(self):
        settings = ComparisonSettings(group="C2", channels=(64, 64))
        problem = baselines.BaselineProblem("C2", (8, 8, 1), 2, channels=(2, 2))
        assert _budget(settings, problem, 1) == 0
        assert _budget(settings, problem, 32) >= 1

    def test_built_in_invariance_fails_if_one_orientation_of_one_image_differs(self):
        y = np.zeros((5, 4, 200), int)
        broken = y.copy()
        broken[3, 2, 17] = 1
        for labels, verdict in ((y, "holds"), (broken, "fails")):
            found = claims(ComparisonSettings(baselines=("gcnn",)), made({"gcnn": (y, labels)}))
            assert [c.outcome for c in found if "built-in" in c.statement] == [verdict]

    def test_intervals_are_over_repetitions_too_where_there_are_five(self):
        table = RNG.normal(size=(5, 1)) + 0.01 * RNG.normal(size=(5, 200))
        over_both, over_inputs = (table_mean(t, (-9, 9)) for t in (table, table[:4]))
        assert over_both.high - over_both.low > 10 * (over_inputs.high - over_inputs.low)


def agreeing(share, off=0.0):
    """(R, 4, N) labels whose orientations keep the class with probability `share`; repetitions differ by `off`."""
    kept = RNG.random((5, 4, 200)) < (share + off * np.linspace(-1, 1, 5))[:, None, None]
    kept[:, 0] = True
    return np.where(kept, 0, 1)


class TestAsTheSourceStatesThem:
    settings = ComparisonSettings(data="fashion_mnist", baselines=("ensemble", "augmented", "gcnn"), repetitions=5)

    def _judged(self, ensemble, augmented=0.8, gcnn=None, **further):
        y = np.zeros((5, 4, 200), int)
        tables = {"ensemble": ensemble, "augmented": agreeing(augmented, 0.02), "gcnn": y if gcnn is None else gcnn}
        results = made({name: (y, labels) for name, labels in (tables | further).items()})
        return {c.statement: c for c in claims(self.settings, results)}

    @pytest.mark.parametrize(
        ("share", "off", "outcome"), [(0.95, 0.01, "holds"), (0.7, 0.01, "fails"), (0.9, 0.1, "undecided")]
    )
    def test_a_number_agrees_differs_or_is_not_told(self, share, off, outcome):
        found = self._judged(agreeing(share, off))["Orbit same predictions out of distribution: ensemble"]
        assert found.outcome == outcome
        assert (found.kind, found.stated) == ("source", "3.85 ± 0.12")
        assert list(found.numbers) == ["noise"]

    def test_exactness_agrees_with_exactness_alone(self):
        name, broken = "Orbit same predictions out of distribution: gcnn", np.zeros((5, 4, 200), int)
        broken[0, 1, 0] = 1
        assert self._judged(agreeing(0.95))[name].outcome == "holds"
        assert self._judged(agreeing(0.95), gcnn=broken)[name].outcome == "fails"

    def test_networks_trained_on_rotated_images_stand_for_the_sources(self):
        name, y = "Orbit same predictions out of distribution: gcnn", np.zeros((5, 4, 200), int)
        found, alone = self._judged(agreeing(0.95), **{"gcnn-augmented": y}), self._judged(agreeing(0.95))
        assert name not in found
        assert "upright" not in found[f"{name}-augmented"].measure
        assert "upright" in alone[name].measure
