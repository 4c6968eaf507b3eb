"""Every Python example of the README and the documentation runs, page by page, in the order in which it is read."""

from __future__ import annotations

import doctest
import re
import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import pytest
from nbclient.exceptions import CellExecutionError
from scripts import docs_notebooks

from equitangents.kernels.engines import select

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
WITH_TORCH = ("pytorch-models.md",)  # run by `make test-extras`: tests/torch_ensembles/test_pages.py
LONG = {  # run by `make test-docs`, not by `make test`
    "README", "actions", "add-a-study", "audit", "deep-ensembles", "fields", "finite-width",
    "fitting-fields", "kernels",
    "learning-curves", "molecules", "networks", "neural-tangents", "other-ensembles", "own-architectures", "planning",
    "sphere", "steerable", "studies", "systems", "tutorial",
}  # fmt: skip
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def examples(page: Path) -> list[tuple[int, str]]:
    """(line, source) of every Python block of `page`."""
    text = page.read_text(encoding="utf-8")
    return [(text.count("\n", 0, match.start(1)), match.group(1)) for match in BLOCK.finditer(text)]


def by_length(pages: list[Path]) -> list:
    """The pages as parameters, the long ones marked as slow."""
    slow = {True: [pytest.mark.slow], False: []}
    return [pytest.param(page, id=page.stem, marks=slow[page.stem in LONG]) for page in pages]


RUN = [page for page in PAGES if examples(page) and page.name not in WITH_TORCH]


@pytest.mark.slow
@pytest.mark.parametrize("page", by_length(RUN))
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(select, "_ENGINES", list(select.engines()))  # a page registers one of its own
    run(page)


def run(page: Path) -> None:
    """All examples of a page, one after another."""
    names: dict[str, object] = {"__name__": "__main__"}
    for line, source in examples(page):
        # blank lines in front, so that a traceback gives the line of the page
        exec(compile("\n" * line + source, str(page), "exec"), names)
    plt.close("all")


SESSIONS = [page for page in PAGES if "```pycon" in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", by_length(SESSIONS))
def test_interpreter_sessions_print_what_they_show(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert outcome.attempted > 0
    assert outcome.failed == 0


def test_the_long_pages_exist() -> None:
    assert {page.stem for page in (*RUN, *SESSIONS)} >= LONG


def test_no_page_hides_an_example_from_this_test() -> None:
    for page in PAGES:
        openings = re.findall(r"^\s*(?:```|~~~)\s*(?:python|py)\b.*$", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert len(openings) == len(examples(page)), f"{page}: an indented or annotated block is not run"


SCRIPTS = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=[script.stem for script in SCRIPTS])
def test_it_runs(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    plt.close("all")
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("script", SCRIPTS, ids=[script.stem for script in SCRIPTS])
def test_it_is_short_and_says_what_it_shows(script: Path) -> None:
    lines = script.read_text("utf-8").splitlines()
    assert len(lines) <= 60
    assert lines[0].startswith('"""')


DOCS = Path(__file__).parents[2] / "docs"
CODE = ("```python\na = 2\nprint(a + 1)\n```\n", "```python\na\n```\n")
NOTEBOOK = f"# Title\n\nSee [the guide](guide/audit.md#read).\n\n{CODE[0]}\nand\n\n{CODE[1]}"


def test_text_and_code_stay_in_order() -> None:
    cells = docs_notebooks.notebook_of(NOTEBOOK).cells
    assert [cell.cell_type for cell in cells] == ["markdown", "code", "markdown", "code"]
    assert cells[1].source == "a = 2\nprint(a + 1)"
    assert "](../guide/audit.html#read)" in cells[0].source


@pytest.mark.parametrize("page", docs_notebooks.PAGES.values())
def test_a_page_loses_no_code_and_is_a_valid_notebook(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    notebook = docs_notebooks.notebook_of(text, page.count("/"))
    nbformat.validate(notebook)
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    assert len(code) == text.count("\n```python\n")
    assert all(block in text for block in code)


@pytest.mark.slow
def test_cells_hold_what_they_printed_and_a_failing_one_is_an_error() -> None:
    run = docs_notebooks.executed(docs_notebooks.notebook_of(NOTEBOOK))
    outputs = [cell.outputs for cell in run.cells if cell.cell_type == "code"]
    assert outputs[0][0].text == "3\n"
    assert outputs[1][0].data["text/plain"] == "2"
    with pytest.raises(CellExecutionError):
        docs_notebooks.executed(docs_notebooks.notebook_of("```python\n1 / 0\n```\n"))
