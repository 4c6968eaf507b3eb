"""The gallery of audits: every model has its page and two sentences, and the index is what its tool writes."""

from __future__ import annotations

from pathlib import Path

from tools.audit_gallery import models
from tools.audit_gallery.page import index
from tools.audit_gallery.texts import TEXTS

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
