"""The documentation's page "Add a study" shows a whole one, in 120 lines, that runs, is added and can be run again."""

import re
from pathlib import Path

import pytest

from equitangents import studies
from pages import outside_resources

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "add-a-study.md"


@pytest.mark.slow
def test_the_study_of_the_page_is_whole_and_small(tmp_path, monkeypatch, capsys):
    (source,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(source.splitlines()) <= 120
    monkeypatch.chdir(tmp_path)
    try:
        exec(compile(source, str(PAGE), "exec"), {"__name__": "a_study_of_the_documentation"})
        said = capsys.readouterr().out
        assert [line.split()[0] for line in said.splitlines()] == ["holds", "holds"]
        folder = tmp_path / "runs" / "variance-quick"
        again = studies.run("variance", settings={"networks": "60"}, progress=False, resume=True)
    finally:
        studies.registry.pop("variance", None)
    assert [claim.outcome for claim in again.claims] == ["holds", "holds"]
    assert (folder / "results" / "variance.csv").read_text().startswith("panel,series,x,y,low,high\n1,measured,4.0,")
    html = (folder / "report.html").read_text()
    assert "at every width" in html
    assert outside_resources(html) == []
