"""A hook of mkdocs: what a search shows first. Pages that say how come before those that list names and numbers."""

from __future__ import annotations

from typing import Any

# By the beginning of a page's path, the first that fits; 1 for all others.
BOOSTS = {"guide/": 4.0, "glossary.md": 2.0, "reference/": 0.5, "results/": 0.5}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Give the page its weight, as Material's search takes it."""
    found = next((boost for start, boost in BOOSTS.items() if page.file.src_uri.startswith(start)), None)
    if found is not None:
        page.meta.setdefault("search", {}).setdefault("boost", found)
    return markdown
