"""Temporary copies of the project, in which faults are planted: the working tree is only read."""

from __future__ import annotations

import compileall
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.mutate.faults import Fault

_COPIED = (
    "src", "tests", "benchmarks", "docs", "tools", "scripts", "native", "packaging", "pyproject.toml", "mkdocs.yml",
    "Makefile", "constraints.txt", "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md",
    "CITATION.cff",
)  # fmt: skip
_LEFT_OUT = shutil.ignore_patterns("__pycache__", ".hypothesis", "*.pyc")


_OWN_SOURCES = """# An editable install finds the package before PYTHONPATH does; here the copy's own sources count.
import sys

sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("_editable_")]
"""


def copy_project(root: Path, into: Path) -> None:
    """What tests need, with compiled sources, which every Python finds that has the copy on its path."""
    into.mkdir(parents=True)
    (into / "sitecustomize.py").write_text(_OWN_SOURCES)
    for name in _COPIED:
        source = root / name
        if source.is_dir():
            shutil.copytree(source, into / name, ignore=_LEFT_OUT)
        elif source.exists():
            shutil.copy2(source, into / name)
    compileall.compile_dir(str(into / "src"), quiet=2)


@contextmanager
def planted(fault: Fault | None, copy: Path) -> Iterator[None]:
    """The fault in its file, and the file as it was afterwards, its time included: bytecode goes by that."""
    if fault is None or fault.native:
        yield
        return
    file = copy / fault.path
    before, stat = file.read_bytes(), file.stat()
    file.write_text(fault.planted(before.decode()))
    os.utime(
        file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 60_000_000_000)
    )  # else bytecode of the same second is taken
    try:
        yield
    finally:
        file.write_bytes(before)
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def digest(root: Path, *places: str) -> str:
    """A short digest of files and folders."""
    found = hashlib.sha256()
    for place in places:
        path = root / place
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in files:
            if "__pycache__" not in file.parts and "_native" not in file.parts:
                found.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:16]
