"""From a page's content to one HTML file that needs nothing else: styles, figures, data and scripts inside."""

from __future__ import annotations

import re
from pathlib import Path

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape

from equitangents.files import whole_file
from equitangents.report.page import Figure, Page, Section, Table, Widget
from equitangents.report.palette import COLOURS
from equitangents.report.verdict import FAILS, HOLDS, UNDECIDED, with_interval

_BADGES = {HOLDS: "holds", FAILS: "fails", UNDECIDED: "undecided"}
_RESOURCE = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed|object|image|use)\b[^>]*\s(?:src|href|data)\s*=\s*["']?+(?!data:|\#)
        |<link\b(?![^>]*href=["']data:)|@import|url\(\s*["']?+(?!data:|\#)""",
    re.I | re.X,
)


def render(page: Page) -> str:
    """The page as HTML."""
    return (
        environment()
        .get_template("page.html.jinja")
        .render(
            page=page,
            badges=_BADGES,
            with_interval=with_interval,
            colours=COLOURS,
            version=page.versions.get("equitangents", ""),
        )
    )


def write(page: Page, path: Path) -> Path:
    """Render `page` to `path`, which appears only when it is complete."""
    with whole_file(path) as partial:
        partial.write_text(render(page), encoding="utf-8")
    return path


def outside_resources(html: str) -> list[str]:
    """Everything in `html` that a browser would fetch from elsewhere; links a reader may follow do not count."""
    return [html[m.start() : m.start() + 120] for m in _RESOURCE.finditer(html)]


def environment(*packages: str) -> Environment:
    """Jinja's, for the templates here and those of `packages`: text is escaped, a missing name is an error."""
    loader = ChoiceLoader([PackageLoader(package, "templates") for package in ("equitangents.report", *packages)])
    jinja = Environment(
        loader=loader,
        autoescape=select_autoescape(("html", "html.jinja"), default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.tests["figure"] = lambda item: isinstance(item, Figure)
    jinja.tests["widget"] = lambda item: isinstance(item, Widget)
    jinja.tests["data_table"] = lambda item: isinstance(item, Table)
    jinja.filters["anchor"] = _anchor
    return jinja


def _anchor(section: Section | str) -> str:
    title = section.title if isinstance(section, Section) else section
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
