"""A hook of mkdocs: the look of the reports for the pages, figures that follow light and dark, lines that break well.

The colours are those of `equitangents.report.palette`, as CSS variables in `stylesheets/colours.css`, and the mark is
that of the reports. Beside every `figure.svg` the site gets a `figure.dark.svg`; a page shows the one of its mode.
No line ends within `--option` or a name with a hyphen, nor between a number and its %.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from equitangents.report import palette

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


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add the style sheet, the mark, and every drawing's dark twin."""
    for file in list(files):
        if file.src_uri.endswith(".svg"):
            files.append(File.generated(config, f"{file.src_uri[:-4]}.dark.svg", content=dark(file.content_string)))
    files.append(File.generated(config, "stylesheets/colours.css", content=style()))
    files.append(File.generated(config, "images/mark.svg", content=MARK.read_text(encoding="utf-8")))
    return files


def on_page_content(page_html: str, **_: Any) -> str:
    """Show every drawing in the page's mode, as wide as its text takes to be read; and keep words whole."""
    parts = _CODE.split(_IMAGE.sub(_both, page_html))
    return "".join(_kept_whole(part) if at % 2 else _KEPT.sub("\u00a0", part) for at, part in enumerate(parts))


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
