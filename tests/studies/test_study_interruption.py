"""Training that is killed in the middle and resumed gives the same bytes."""

import json

import pytest

from equitangents_studies.framework.progress import Task
from equitangents_studies.framework.settings import as_dict, changed
from studies.miniatures import TINY, assert_same_tables, run, study


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "total"),
    [
        pytest.param("toy", 12, marks=pytest.mark.slow),
        pytest.param("rotated-images", 5, marks=pytest.mark.slow),
        ("cross-product", 3),
    ],
)
def test_killed_in_the_middle_of_training_and_resumed(name, total, finished_miniature, tmp_path, monkeypatch):
    whole = finished_miniature(name)
    checkpoints = tmp_path / "cut" / "checkpoints"
    step = Task.step

    def interrupting(self, done, steps):
        step(self, done, steps)
        if (done, steps) == (2, total) and any(checkpoints.rglob("*")):
            raise KeyboardInterrupt

    monkeypatch.setattr(Task, "step", interrupting)
    with pytest.raises(KeyboardInterrupt):
        run(name, tmp_path / "cut")
    assert any(checkpoints.rglob("*"))
    assert not (tmp_path / "cut" / "report.html").exists()
    monkeypatch.setattr(Task, "step", step)
    resumed = run(name, tmp_path / "cut", resume=True)
    # as written: where there is no interval, its ends are NaN, which equal nothing
    assert [claim.to_dict() for claim in resumed.claims] == [claim.to_dict() for claim in whole.claims]
    assert_same_tables(tmp_path / "cut", whole.folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [*(pytest.param(n, marks=pytest.mark.slow) for n in ("toy", "sampling", "imagenet-scale")), "medical-kernels"],
)
def test_a_paper_preset_starts_and_resumes(name, finished_miniature, tmp_path, monkeypatch):
    """With the sizes of the miniature; all that these leave as it is comes from the preset."""
    finished_miniature(name)  # compiles what both need

    def interrupting(self, done, steps):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Task, "step", interrupting)
        with pytest.raises(KeyboardInterrupt):
            run(name, tmp_path / "paper", preset="paper")
    assert not (tmp_path / "paper" / "report.html").exists()
    finished = run(name, tmp_path / "paper", preset="paper", resume=True)
    config = json.loads((tmp_path / "paper" / "config.json").read_text())
    assert config["preset"] == "paper"
    assert config["settings"] == json.loads(json.dumps(as_dict(changed(study(name).presets["paper"], TINY[name]))))
    assert len(finished.claims) > 0
