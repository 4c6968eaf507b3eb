"""A hook of mkdocs: the package for the page that audits in the browser, as one script, browser/equitangents.js.

The script holds a zip archive in base64, since a page that was opened from disk may load scripts and nothing else.
"""

from __future__ import annotations

import base64
import io
import zipfile
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
_KINDS = {".py", ".pyi", ".jinja", ".svg", ".json", ".toml"}
_PAGE = ("audit_here.py", "without_jax.py")
_SAME_TIME = (1980, 1, 1, 0, 0, 0)  # so that the same sources give the same bytes


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add the script."""
    packed = base64.b64encode(archive()).decode("ascii")
    files.append(File.generated(config, "browser/equitangents.js", content=f'window.EQUITANGENTS = "{packed}";\n'))
    return files


def archive() -> bytes:
    """The sources of `equitangents`, without its engine, and the page's own two files, zipped."""
    src, page = ROOT / "src", ROOT / "docs" / "browser"
    paths = [p for p in (src / "equitangents").rglob("*") if p.suffix in _KINDS and "_native" not in p.parts]
    named = {path.relative_to(src).as_posix(): path for path in paths} | {name: page / name for name in _PAGE}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in sorted(named):
            packed.writestr(zipfile.ZipInfo(name, _SAME_TIME), named[name].read_bytes(), zipfile.ZIP_DEFLATED, 9)
    return stream.getvalue()
