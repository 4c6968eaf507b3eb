"""Each row of ARCHITECTURE.md's "To add or change something", done: a change that touches the files that the row names.

A file NAME.toml is one change, as small as it goes: its edits put `text` before or after one that its file holds once,
at the file's end, or into a new file; `check` is what works then. All are made in one copy of the sources.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHANGES = {file.stem: tomllib.loads(file.read_text()) for file in sorted(Path(__file__).parent.glob("*.toml"))}
PRELUDE = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__]  # of the checkout
import json, jax, jax.numpy as jnp, numpy as np, equitangents as et
X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
failed = {}
for name, check in json.loads(input()).items():
    try:
        exec(check, globals())
    except Exception as error:
        failed[name] = repr(error)
print(json.dumps(failed))
"""


def apply(edit: dict[str, str], root: Path) -> None:
    """Make one edit; AssertionError where the text beside which it goes is not in its file once."""
    file, text = root / edit["file"], edit["text"]
    known = file.read_text() if file.exists() else None
    if beside := edit.get("before", edit.get("after", "")):
        assert known is not None
        assert known.count(beside) == 1, f"{edit['file']}: {beside!r} is there {known.count(beside)} times"
        known = known.replace(beside, text.removeprefix("\n") + beside if "before" in edit else beside + text)
    else:
        assert (known is None) != bool(edit.get("end"))
        known = text.removeprefix("\n") if known is None else known + text
    file.write_text(known)


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """What does not work in the copy after all changes, by name."""
    copy = tmp_path_factory.mktemp("changed")
    for folder in ("src", "docs/reference", "tests/kernels", "tests/studies"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    for change in CHANGES.values():
        for edit in change["edit"]:
            apply(edit, copy)
    checks = json.dumps({name: change["check"] for name, change in CHANGES.items()})
    variables = os.environ | {"PYTHONPATH": str(copy / "src")}
    run = [sys.executable, "-c", PRELUDE]
    done = subprocess.run(run, input=checks, env=variables, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def rows() -> dict[str, str]:
    """The rows of the table, by what is added."""
    lines = (ROOT / "ARCHITECTURE.md").read_text().split("## To add")[1].splitlines()
    return {line.split("|")[1].strip(): line for line in lines if line.startswith(("| a ", "| an "))}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_works_and_touches_the_files_of_its_row(name, failed):
    assert name not in failed, failed[name]
    row, files = rows()[CHANGES[name]["row"]], {edit["file"] for edit in CHANGES[name]["edit"]}
    assert row.strip("| ").rsplit("|", 1)[1].strip() == str(len(files))
    named = re.findall(r"`([^`]+)`", row)
    for file in files - set(CHANGES[name].get("own", ())):  # of the class that is added, wherever it is
        in_folder = any(file.startswith(f"{path}/") and file.count("/") == path.count("/") + 1 for path in named)
        assert file in named or in_folder or any(file.endswith(f"/{path}") for path in named), file


def test_every_row_is_done_once():
    assert sorted(change["row"] for change in CHANGES.values()) == sorted(rows())
