"""Results that are read off stages: every number stays at its coordinates, whatever is cut, stacked or renamed."""

from __future__ import annotations

import numpy as np
import pytest

from equitangents.errors import InvalidArgumentError
from equitangents_studies.framework.measured import Keyed, Results, StageArrays, Stages, by, measured
from equitangents_studies.framework.progress import StudyProgress

LAWS, GROUPS, WIDTHS = ("normal", "uniform"), ("I", "C2", "C4"), (8, 16)
LEVELS = {"law": LAWS, "group": GROUPS, "width": WIDTHS, "kind": ("ntk", "nngp")}


class Folder:
    """Stages that are computed at once; their names and titles in order."""

    def __init__(self):
        self.data_dir = None
        self.seen = []

    def stages(self, work):
        self.seen += [(one.name, one.title) for one in work.values()]
        with StudyProgress(shown=False).task("") as task:
            return {key: one.compute(task) for key, one in work.items()}


def number(law, group, width):
    """One that tells where it belongs."""
    return 100 * LAWS.index(law) + 10 * GROUPS.index(group) + WIDTHS.index(width)


class ScoreResults(Results):
    source: str
    scores: Keyed[np.ndarray] = by("group law", "member width")
    first: Keyed[float] = by("law width", of="first_{law}")


def compute(offset, law, width, task):
    by_group = np.array([number(law, group, width) for group in GROUPS])
    return {"scores": by_group[:, None] + np.array([0.25, 0.5]) + offset, f"first_{law}": np.array(width / 2)}


def found(folder, offset=0):
    part = Stages("{law}-{width}", "{law} of {width}", lambda *at: compute(offset, *at))
    return measured(folder, part, levels=LEVELS)


def test_stages_are_named_and_titled_by_their_coordinates():
    folder = Folder()
    found(folder)
    assert folder.seen == [(f"{law}-{width}", f"{law} of {width}") for law in LAWS for width in WIDTHS]
    measured(folder, Stages("a-{law}", lambda law: law.upper(), lambda law, task: {}), levels=LEVELS)
    assert folder.seen[4:] == [("a-normal", "NORMAL"), ("a-uniform", "UNIFORM")]
    places = {"group": ("O(3)^d", "a/b")}  # no names of files
    measured(folder, Stages("x-{group#}", "{group}", lambda group, task: {}), levels=places)
    assert folder.seen[6:] == [("x-0", "O(3)^d"), ("x-1", "a/b")]


def test_axes_that_are_coordinates_are_cut_and_coordinates_that_are_axes_are_stacked():
    results = ScoreResults.read(found(Folder()), source="here")
    assert results.source == "here"
    assert set(results.scores) == {(group, law) for group in GROUPS for law in LAWS}
    for (group, law), scores in results.scores.items():
        assert scores.shape == (2, 2)
        for j, width in enumerate(WIDTHS):
            assert np.array_equal(scores[:, j], number(law, group, width) + np.array([0.25, 0.5]))
    assert results.first == {(law, width): width / 2 for law in LAWS for width in WIDTHS}
    assert all(type(value) is float for value in results.first.values())
    with pytest.raises(AttributeError):
        results.source = "there"
    part = Stages("{law}-{width}", "", lambda law, width, task: {})
    assert ScoreResults.read(measured(Folder(), part, levels={**LEVELS, "law": ()}), source="here").scores == {}


def test_one_coordinate_is_its_own_key_and_without_any_there_is_one_array():
    class Plain(Results):
        mean: Keyed[np.ndarray] = by("kind", "n", of="{kind}")
        total: np.ndarray = by("", "n kind", of="{kind}")

    arrays = {"ntk": np.arange(3), "nngp": 5 + np.arange(3)}
    plain = Plain.read(measured(Folder(), Stages("only", "Only", lambda task: arrays), levels=LEVELS))
    assert {kind: value.tolist() for kind, value in plain.mean.items()} == {"ntk": [0, 1, 2], "nngp": [5, 6, 7]}
    assert plain.total.tolist() == [[0, 5], [1, 6], [2, 7]]


def test_coordinates_may_be_given_together():
    class Some(Results):
        scores: Keyed[np.ndarray] = by("data model", "draw")

    cases = [("digits", "MLP"), ("letters", "CNN"), ("letters", "MLP")]
    part = Stages("{data}-{model}", "", lambda name, model, task: {"scores": np.array([len(name), ord(model[0])])})
    some = Some.read(measured(Folder(), part, levels={"data model": cases}))
    assert list(some.scores) == cases
    assert some.scores["letters", "CNN"].tolist() == [7, ord("C")]


@pytest.mark.parametrize("shape", [(2, 2), (4, 2), (3,), (3, 2, 1)])
def test_arrays_of_other_axes_are_refused(shape):
    stages = [({"law": law, "width": width}, {"scores": np.zeros(shape)}) for law in LAWS for width in WIDTHS]
    with pytest.raises(InvalidArgumentError, match=r"scores is \(.*\); expected 'group' or 'member'; the axes"):
        ScoreResults.read(StageArrays({"": stages}, LEVELS), source="here")


def test_what_no_stage_holds_is_named():
    part = Stages("{law}-{width}", "", lambda law, width, task: {"scores": np.zeros((3, 2))})
    with pytest.raises(InvalidArgumentError, match=r"name is 'first_\{law\}'"):
        ScoreResults.read(measured(Folder(), part, levels=LEVELS), source="here")
    with pytest.raises(InvalidArgumentError, match=r"levels has no values of \['step'\]"):
        measured(Folder(), Stages("{step}", "", lambda step, task: {}), levels=LEVELS)


def test_arrays_of_the_same_name_are_told_apart_by_their_part():
    class Both(Results):
        small: Keyed[float] = by("width", of="small.scores")
        large: Keyed[float] = by("law", of="large.scores")

    parts = [
        Stages("small-{width}", "", lambda width, task: {"scores": np.array(width)}),
        Stages("large-{law}", "", lambda law, task: {"scores": np.array(len(law))}),
    ]
    both = Both.read(measured(Folder(), parts[0], levels=LEVELS) | measured(Folder(), parts[1], levels=LEVELS))
    assert both.small == {8: 8, 16: 16}
    assert both.large == {"normal": 6, "uniform": 7}
