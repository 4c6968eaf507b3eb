"""A hook of mkdocs: files of the sources that pages link to, with their lines numbered, in site/source/.

A page links to `../../src/…` or `../../native/…`, as it can be followed in a checkout; the site gets a page for each.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_for_filename

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\]\((?:\.\./)+((?:src|native)/[^)#]+)\)")


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add a page for every source that some page links to; raises FileNotFoundError for one that is not there."""
    for path in sorted({path for file in files.documentation_pages() for path in LINK.findall(file.content_string)}):
        files.append(File.generated(config, place_of(path), content=shown(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links to sources lead to those pages."""
    folder = posixpath.dirname(page.file.src_uri)
    return LINK.sub(lambda link: f"]({posixpath.relpath(place_of(link[1]), folder or '.')})", markdown)


def place_of(path: str) -> str:
    """Where the site has a file of the sources."""
    return f"source/{path}.html"


def shown(path: str) -> str:
    """A file of the sources as a page."""
    formatter = HtmlFormatter(full=True, title=path, linenos="table", lineanchors="line", anchorlinenos=True)
    return highlight((ROOT / path).read_text(encoding="utf-8"), get_lexer_for_filename(path), formatter)
