"""A hook of mkdocs: the tutorial and the audit's guide as notebooks, run from top to bottom, in site/notebooks/.

A page's text becomes Markdown cells, and each of its Python blocks a cell that is run. A block that fails stops the
build.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

PAGES = {"tutorial": "tutorial.md", "audit": "guide/audit.md"}
BLOCK = re.compile(r"^```python\n(.*?)^```\n?", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+?)\.md(#[^)]*)?\)")
_SECONDS = 600  # for one cell


def on_post_build(config: Any, **_: Any) -> None:
    """Write both notebooks beside the site."""
    for name, page in PAGES.items():
        text = (Path(config["docs_dir"]) / page).read_text(encoding="utf-8")
        notebook = executed(notebook_of(text, depth=page.count("/")))
        path = Path(config["site_dir"]) / "notebooks" / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, path)


def notebook_of(text: str, depth: int = 0) -> nbformat.NotebookNode:
    """A page of Markdown as a notebook; `depth` is how many folders down the page lies, for links to other pages."""
    cells = []
    parts = BLOCK.split(text)
    up = "../" + ("guide/" if depth else "")
    for i, part in enumerate(parts):
        if not part.strip():
            continue
        if i % 2:
            cells.append(nbformat.v4.new_code_cell(part.rstrip()))
        else:
            linked = LINK.sub(lambda m: f"]({up}{m[1]}.html{m[2] or ''})", part)
            cells.append(nbformat.v4.new_markdown_cell(linked.strip()))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"  # the same in every build
    return nbformat.v4.new_notebook(
        cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    )


def executed(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """A notebook with the outputs of its cells, which are run here; raises CellExecutionError where one fails."""
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=_SECONDS, resources={"metadata": {"path": folder}})
        return client.execute()
