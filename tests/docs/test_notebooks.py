"""Pages become notebooks that hold all of their text and code, in order, with what the code prints."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import docs_notebooks

DOCS = Path(__file__).parents[2] / "docs"
CODE = ("```python\na = 2\nprint(a + 1)\n```\n", "```python\na\n```\n")
PAGE = f"# Title\n\nSee [the guide](guide/audit.md#read).\n\n{CODE[0]}\nand\n\n{CODE[1]}"


def test_text_and_code_stay_in_order() -> None:
    cells = docs_notebooks.notebook_of(PAGE).cells
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
    run = docs_notebooks.executed(docs_notebooks.notebook_of(PAGE))
    outputs = [cell.outputs for cell in run.cells if cell.cell_type == "code"]
    assert outputs[0][0].text == "3\n"
    assert outputs[1][0].data["text/plain"] == "2"
    with pytest.raises(CellExecutionError):
        docs_notebooks.executed(docs_notebooks.notebook_of("```python\n1 / 0\n```\n"))
