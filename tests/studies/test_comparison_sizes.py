"""The comparison over sizes: cells of equal steps, stages of their own, and claims that follow the leads."""

from types import SimpleNamespace

import numpy as np
import pytest

from equitangents import contenders
from equitangents_studies.comparison import sizes
from equitangents_studies.comparison.settings import Curve, Results
from equitangents_studies.framework.stages import Part, Stages

SETTINGS = sizes.Settings(tasks=("digits:8",), sizes=(50, 200), shrink=(2,), repetitions=5)
RNG = np.random.default_rng(0)


class TestCells:
    @pytest.mark.parametrize("size", [50, 100, 1000, 10000])
    def test_networks_take_the_same_number_of_steps_whatever_the_size(self, size):
        cell = sizes.cell_settings(sizes.PRESETS["desk"], "mnist:14", size)
        steps = cell.epochs * -(-size // cell.batch)
        assert abs(steps / 3000 - 1) < 0.06
        assert (cell.data, cell.pixels, cell.train_images) == ("mnist", 14, size)

    def test_the_images_of_other_tasks_are_foreign_to_a_task(self):
        of = lambda task: sizes.cell_settings(sizes.PRESETS["desk"], task, 100).foreign
        assert of("mnist:14") == ("fashion_mnist", "cifar10", "noise")
        assert of("fashion_mnist:14") == ("mnist", "cifar10", "noise")

    def test_a_task_is_a_data_set_with_or_without_pixels(self):
        assert sizes.task_of("mnist:14") == ("mnist", 14)
        assert sizes.task_of("mine.npz") == ("mine.npz", None)

    def test_every_cell_keeps_stages_of_its_own(self):
        names = []
        keep = lambda name, title, compute: names.append((name, title)) or {}
        part = Part(SimpleNamespace(data_dir=None, stage=keep), "digits_8-50", "digits:8, 50 images")
        assert isinstance(part, Stages)
        part.stage("gcnn-0", "network", dict)
        assert names == [("digits_8-50-gcnn-0", "digits:8, 50 images: network")]


def labels(wrong, n=200):
    """(5, 4, n) of an invariant model that errs on a share `wrong`; the class is 0."""
    y = (RNG.random((5, 1, n)) < wrong).astype(int)
    return {"test": np.repeat(y, 4, axis=1), "noise": np.zeros((5, 4, n), int)}


def made(leads):
    """Cells in which the equivariant network errs on 0.3 of the inputs and the ensemble on 0.3 + lead."""
    images = SimpleNamespace(
        sets={"test": None, "noise": None}, titles={"test": "tests", "noise": "noise"}, test_y=np.zeros(200, int)
    )
    problem = contenders.Problem("C4", (8, 8, 1), 2)
    cells = {}
    for size, lead in zip(SETTINGS.sizes, leads, strict=True):
        curve = {name: y[None] for name, y in labels(0.3 + lead).items()}
        small = {2: Curve(np.array([4]), curve, (4, 8), 1.0)}
        cells["digits:8", size] = Results(images, problem, {}, {"gcnn": labels(0.3)}, {}, {}, "", {}, small, 4.0)
    return sizes.SizesResults(cells)


class TestClaims:
    @pytest.mark.parametrize(
        ("leads", "verdicts"),
        [
            ((0.4, 0.2), ["holds", "holds", "holds"]),
            ((-0.25, 0.0), ["fails", "fails", "holds"]),
            ((0.4, -0.1), ["holds", "holds", "holds"]),  # on average
            ((0.0, 0.0), ["not decidable at this size", "not decidable at this size", "holds"]),
        ],
    )
    def test_they_follow_the_leads(self, leads, verdicts):
        assert [c.verdict for c in sizes.claims(SETTINGS, made(leads))] == verdicts

    def test_where_ensembles_are_ahead_is_said(self):
        first = sizes.claims(SETTINGS, made((-0.25, 0.2)))[0]
        assert "tests 8×8, 50 images, 4 networks of 4 and 8 channels." in first.meaning
        assert "200 images" not in first.meaning

    def test_ensembles_that_are_not_invariant_off_the_data_fail(self):
        results = made((0.4, 0.2))
        results.cells["digits:8", 50].curves[2].labels["noise"][:, :, 1:, :150] = 1
        assert sizes.claims(SETTINGS, results)[2].verdict == "fails"
