"""A hook of mkdocs: the formulas of the pages as MathML, which browsers show without further scripts or fonts."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

# What pymdownx.arithmatex makes of $...$ and $$...$$.
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(page_html: str, **_: Any) -> str:
    """Replace each formula of the page."""
    return FORMULA.sub(_to_mathml, page_html)


def _to_mathml(match: re.Match[str]) -> str:
    tag, bracket, latex = match.groups()
    display = "block" if bracket == "[" else "inline"
    return f'<{tag} class="formula">{convert(html.unescape(latex).strip(), display=display)}</{tag}>'
