"""Training that is killed in the middle and resumed gives the same bytes."""

import pytest

from equitangents.studies.framework.progress import Task
from studies.miniatures import assert_same_tables, run


@pytest.mark.parametrize(("name", "total"), [("toy", 12), ("rotated-images", 5), ("cross-product", 3)])
def test_killed_in_the_middle_of_training_and_resumed(name, total, tmp_path, monkeypatch):
    whole = run(name, tmp_path / "whole")
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
    assert resumed.claims == whole.claims
    assert_same_tables(name, tmp_path / "cut", tmp_path / "whole")
