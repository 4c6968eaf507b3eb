"""The paper has JOSS's parts, every work that it cites is in its bibliography, and its numbers are those of runs."""

from __future__ import annotations

import re
from pathlib import Path

from tools.audit_gallery import models
from tools.audit_gallery.page import index
from tools.audit_gallery.texts import TEXTS

PLACE = Path(__file__).parents[2] / "paper"
TEXT = (PLACE / "paper.md").read_text(encoding="utf-8")
FRONT, BODY = TEXT.split("---\n", 2)[1:]
PARTS = [
    "Summary", "Statement of need", "State of the field", "Software design", "Research impact statement",
    "AI usage disclosure", "Acknowledgements", "References",
]  # fmt: skip


def test_it_has_the_parts_that_the_journal_asks_for_in_its_length():
    assert re.findall(r"^# (.*)$", BODY, re.MULTILINE) == PARTS
    assert 750 <= len(BODY.split()) <= 1750
    assert re.findall(r"^  - name: (.*)$", FRONT.split("authors:")[1], re.MULTILINE)[0] == "The equitangents project"
    assert "bibliography: paper.bib" in FRONT
    figures = re.findall(r"^!\[.+\]\((\S+)\)$", BODY, re.MULTILINE)
    assert len(figures) == 3
    assert all((PLACE / figure).is_file() for figure in figures)


def test_what_it_cites_is_in_its_bibliography_and_all_of_that_is_cited():
    known = re.findall(r"^@\w+\{([\w-]+),$", (PLACE / "paper.bib").read_text(encoding="utf-8"), re.MULTILINE)
    cited = re.findall(r"(?<=[\[ ])@([\w-]+)", BODY)
    assert sorted(set(cited)) == sorted(known)
    peers = {"torchtangents", "cesa2022program", "geiger2022e3nn", "metatrain", "novak2020neural"}
    assert peers <= set(re.findall(r"@([\w-]+)", BODY.split("# State of the field")[1].split("\n# ")[0]))


def test_all_its_numbers_stand_between_markers():
    """`python -m tools.results --check` compares these with the published runs; nobody would keep another."""
    prose = re.sub(r"(?s:<!-- .+? -->.*?<!-- -->)|@[\w-]+", "", BODY)
    assert set(re.findall(r"(?<![\w(-])\d+(?:[.,]\d+)*", prose)) <= {
        "2025"
    }  # the year in which a repository was archived


AUDITS = Path(__file__).parents[2] / "docs" / "audits"


def test_the_index_is_that_of_the_tool_and_every_page_stands_alone() -> None:
    assert (AUDITS / "index.md").read_text(encoding="utf-8") == index(AUDITS)
    assert len(TEXTS) >= 5
    for name, (_, _, learned) in TEXTS.items():
        assert callable(getattr(models, name))
        assert learned.count(". ") == 1, "two sentences on what was learned"
        page = (AUDITS / f"{name.replace('_', '-')}.html").read_text(encoding="utf-8")
        assert "</html>" in page
        assert "<script src" not in page
        assert "build/wheels" not in page
