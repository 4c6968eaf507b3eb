"""Every Python example of the README and the documentation runs, page by page, in the order in which it is read."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

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
