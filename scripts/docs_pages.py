"""A hook of mkdocs: what pages get beyond Markdown, each part under its own heading below.

Drawings follow light and dark; formulas are MathML, which needs no script; links to sources lead to pages of the site;
a table of questions may stand as a flow chart; a search shows guides before lists of names.
"""

from __future__ import annotations

import html
import posixpath
import re
import textwrap
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_for_filename

from equitangents.report import palette


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add the style sheet, the mark, every drawing's dark twin, and a page for every source that is linked to.

    Raises FileNotFoundError for a link to a source that is not there.
    """
    for file in list(files):
        if file.src_uri.endswith(".svg"):
            files.append(File.generated(config, f"{file.src_uri[:-4]}.dark.svg", content=dark(file.content_string)))
    files.append(File.generated(config, "stylesheets/colours.css", content=style()))
    files.append(File.generated(config, "images/mark.svg", content=MARK.read_text(encoding="utf-8")))
    for path in sorted({path for file in files.documentation_pages() for path in LINK.findall(file.content_string)}):
        files.append(File.generated(config, place_of(path), content=shown(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Give the page its weight in searches, its chart and its links; ValueError for a chart without a table."""
    found = next((boost for start, boost in BOOSTS.items() if page.file.src_uri.startswith(start)), None)
    if found is not None:
        page.meta.setdefault("search", {}).setdefault("boost", found)
    folder = posixpath.dirname(page.file.src_uri)
    markdown = LINK.sub(lambda link: f"]({posixpath.relpath(place_of(link[1]), folder or '.')})", markdown)
    if CHART not in markdown:
        return markdown
    rows = [row.groupdict() for row in ROW.finditer(markdown.split(CHART)[1])]
    if not rows:
        raise ValueError(f"{CHART} is not followed by a table of questions and answers")
    return markdown.replace(CHART, chart(rows))


def on_page_content(page_html: str, **_: Any) -> str:
    """Show every drawing in the page's mode, formulas as MathML, and words whole."""
    parts = _CODE.split(_IMAGE.sub(_both, page_html))
    whole = "".join(_kept_whole(part) if at % 2 else _KEPT.sub("\u00a0", part) for at, part in enumerate(parts))
    return FORMULA.sub(_to_mathml, whole)


# Searches

# By the beginning of a page's path, the first that fits; 1 for all others.
BOOSTS = {"guide/": 4.0, "glossary.md": 2.0, "reference/": 0.5, "results/": 0.5}


# Formulas: what pymdownx.arithmatex makes of $...$ and $$...$$

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def _to_mathml(match: re.Match[str]) -> str:
    tag, bracket, latex = match.groups()
    display = "block" if bracket == "[" else "inline"
    return f'<{tag} class="formula">{convert(html.unescape(latex).strip(), display=display)}</{tag}>'


# Sources: a page links to `../../src/…` or `../../native/…`, as it can be followed in a checkout

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\]\((?:\.\./)+((?:src|native)/[^)#]+)\)")


def place_of(path: str) -> str:
    """Where the site has a file of the sources."""
    return f"source/{path}.html"


def shown(path: str) -> str:
    """A file of the sources as a page."""
    formatter = HtmlFormatter(full=True, title=path, linenos="table", lineanchors="line", anchorlinenos=True)
    return highlight((ROOT / path).read_text(encoding="utf-8"), get_lexer_for_filename(path), formatter)


# Drawings and colours, those of `equitangents.report.palette`

MARK = Path(palette.__file__).parent / "templates" / "mark.svg"
_IMAGE = re.compile(r'<img\b[^>]*?\bsrc="([^":]+)\.svg"[^>]*?/?>')
_CODE = re.compile(
    r"(<pre\b.*?</pre>|<textarea\b.*?</textarea>|<script\b.*?</script>|<code\b[^>]*>.*?</code>)", re.DOTALL
)
_WHOLE = re.compile(r"(?<![\w&;])[\w.,/=:]*(?:-+[\w.,/=:]+)+")  # a word of a command, with hyphens
_LONGEST = 34  # characters of a word that is not broken, so that it fits a telephone
_KEPT = re.compile(r"(?<=\d) (?=%)|(?<=[✓✗]) ")
_DARK = {c.light: c.dark for c in (palette.SURFACES[0], *palette.COLOURS)} | {"#000000": palette.INK.dark}
_LIGHT_COLOUR = re.compile("|".join(map(re.escape, _DARK)), re.IGNORECASE)


def _kept_whole(code: str) -> str:
    """Code within a line, whose words with hyphens stay on one line; other code as it is."""
    if not code.startswith("<code"):
        return code
    before, inside = code[: code.index(">") + 1], code[code.index(">") + 1 :]
    whole = lambda word: f'<span class="whole">{word[0]}</span>' if len(word[0]) <= _LONGEST else word[0]
    return before + "".join(
        part if part.startswith("<") else _WHOLE.sub(whole, part) for part in re.split(r"(<[^>]*>)", inside)
    )


def _both(image: re.Match[str]) -> str:
    """The drawing twice, of which the style sheet shows one; what is not shown is not loaded."""
    light = image[0].replace("<img", '<img class="in-light" loading="lazy"', 1)
    twin = image[0].replace("<img", '<img class="in-dark" loading="lazy"', 1).replace(".svg", ".dark.svg", 1)
    return f'<span class="drawing">{light}{twin}</span>'


def dark(svg: str) -> str:
    """A drawing in the colours for dark ground; what has none is drawn in ink."""
    svg = svg.replace("<svg ", f'<svg fill="{palette.INK.dark}" ', 1)
    return _LIGHT_COLOUR.sub(lambda colour: _DARK[colour[0].lower()], svg)


def style() -> str:
    """The colours of both modes as CSS variables, by the names that Material gives the modes."""
    colours = (*palette.SURFACES, *palette.COLOURS)
    light = " ".join(f"--{c.name}: {c.light};" for c in colours)
    twins = " ".join(f"--{c.name}: {c.dark};" for c in colours)
    return f'[data-md-color-scheme="default"] {{ {light} }}\n[data-md-color-scheme="slate"] {{ {twins} }}\n'


# Charts: each row of the table is a question and, for yes, a link and some words; no leads to the next row

CHART = "<!-- chart -->"
ROW = re.compile(
    r"^\| (?P<question>[^|]*?) ?\| \[(?P<name>[^]]+)\]\((?P<link>[^)]+)\)(?P<words>[^|]*)\|$", re.MULTILINE
)
_LETTERS = (25, 16)  # in a line of a question, of an answer
_LINE, _GAP = 16, 22  # heights
_LEFT, _WIDTH, _RIGHT, _ANSWER = 2, 190, 232, 144


def chart(rows: list[dict[str, str]]) -> str:
    """The questions below one another, their answers beside them, in 380 units of width: that of a telephone."""
    parts, top = [], 2
    for row in rows:
        question = textwrap.wrap(row["question"], _LETTERS[0])
        answer = textwrap.wrap(row["name"], _LETTERS[1])
        words = textwrap.wrap(row["words"].strip(), _LETTERS[1] + 4)
        high = max(len(question), len(answer) + len(words)) * _LINE + 16
        middle = top + high // 2
        if question:
            parts += [
                f'<rect class="question" x="{_LEFT}" y="{top}" width="{_WIDTH}" height="{high}" rx="8"/>',
                _lines(question, _LEFT + 10, middle),
                f'<path class="line" marker-end="url(#arrow)" d="M{_LEFT + _WIDTH} {middle}H{_RIGHT - 3}"/>',
                f'<text class="said" x="{_LEFT + _WIDTH + 6}" y="{middle - 5}">yes</text>',
            ]
        left, width = (_RIGHT, _ANSWER) if question else (_LEFT, _WIDTH)
        link = re.sub(r"\.md(?=#|$)", ".html", row["link"])
        parts += [
            f'<rect class="answer" x="{left}" y="{top}" width="{width}" height="{high}" rx="8"/>',
            f'<a href="{link}">{_lines(answer, left + 10, middle - len(words) * _LINE / 2)}</a>',
            _lines(words, left + 10, middle + len(answer) * _LINE / 2, "said"),
        ]
        top += high
        if row is not rows[-1]:
            x = _LEFT + 24
            parts += [
                f'<path class="line" marker-end="url(#arrow)" d="M{x} {top}V{top + _GAP - 3}"/>',
                f'<text class="said" x="{x + 6}" y="{top + 14}">no</text>',
            ]
            top += _GAP
    arrow = (
        '<defs><marker id="arrow" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="6" markerHeight="6" orient="auto">'
        '<path class="line" d="M0 0L5 3L0 6"/></marker></defs>'
    )
    shown = "".join(part for part in parts if part)
    title = "<title>Which method: the table below as a chart</title>"
    return f'<svg class="chart" viewBox="0 0 380 {top + 2}" role="img">{title}{arrow}{shown}</svg>'


def _lines(lines: list[str], x: float, middle: float, kind: str = "") -> str:
    """Lines of text about the height `middle`."""
    first = middle - (len(lines) - 1) * _LINE / 2 + 4
    each = "".join(f'<tspan x="{x}" y="{first + i * _LINE:g}">{escape(line)}</tspan>' for i, line in enumerate(lines))
    return f'<text class="{kind}">{each}</text>' if lines else ""
