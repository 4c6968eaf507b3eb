"""The page that audits in the browser: what it ships runs with NumPy, SciPy and Jinja alone, and finds the same."""

from __future__ import annotations

import html
import io
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scripts.docs_browser import archive

import equitangents as et

PAGE = Path(__file__).parents[2] / "docs" / "browser" / "index.md"
SOURCE = html.unescape(re.search(r"<textarea[^>]*>\n(.*?)</textarea>", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1])

# Refuses to import what a browser lacks: other packages, modules of Python that need a system, and threads.
BROWSER = """
import importlib.abc, json, sys, threading
import numpy, scipy.linalg, scipy.special, scipy.stats  # built for this machine, they use what browsers lack

here = {"numpy", "scipy", "jinja2", "markupsafe", "equitangents", "audit_here", "without_jax"}
lacking = {
    "_hashlib", "_lzma", "_multiprocessing", "_posixshmem", "_posixsubprocess", "_sqlite3", "_ssl", "curses", "fcntl",
    "grp", "lzma", "readline", "resource", "sqlite3", "ssl", "syslog", "termios", "tkinter",
}

class Refuses(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in lacking or not (top in here or top in sys.stdlib_module_names or top.startswith("_sysconfigdata")):
            raise ModuleNotFoundError(f"a browser has no {name}", name=name)

def none_starts(*args, **kwargs):
    raise RuntimeError("can't start new thread")

for name in lacking:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Refuses())
threading._start_new_thread = threading._start_joinable_thread = none_starts
sys.path.insert(0, sys.argv[1])
import audit_here

print(json.dumps(audit_here.audited(sys.stdin.read(), sys.argv[2])))
absent = {name.partition(".")[0] for name in sys.modules} & {"jaxlib", "equitangents_studies", "sklearn", "zarr"}
assert not absent, absent
"""


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """What the page unpacks."""
    folder = tmp_path_factory.mktemp("shipped")
    zipfile.ZipFile(io.BytesIO(archive())).extractall(folder)
    return folder


def in_browser(shipped, source, group):
    words = [sys.executable, "-c", BROWSER, str(shipped), group]
    done = subprocess.run(words, input=source, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("group", ["C4", "C8"])
def test_the_pages_example_finds_what_the_installed_package_finds(shipped, group):
    found = in_browser(shipped, SOURCE, group)
    names: dict = {}
    exec(SOURCE, names)
    report = et.audit(names["model"], group, names["x"], effort="quick")
    assert "error" not in found
    assert found["sentence"] == report.summary()
    assert "not invariant" in found["sentence"]
    assert found["html"].startswith("<!doctype html>")
    assert (
        html.unescape(found["html"]).count(report.sentence) == html.unescape(report.html()).count(report.sentence) > 0
    )


def test_a_symmetric_filter_makes_the_example_invariant(shipped):
    symmetric = "filters = sum(np.rot90(filters, k) for k in range(4))\n"
    found = in_browser(shipped, SOURCE.replace("weights =", symmetric + "weights =", 1), "C4")
    assert "is invariant under C4 to rounding" in found["sentence"]


def test_trees_are_taken_apart_as_jax_does(monkeypatch):
    import jax

    monkeypatch.syspath_prepend(str(PAGE.parent))
    import without_jax

    for tree in ({"b": np.ones(2), "a": (1, [2, None])}, [], None, 3, (None, {"x": {}})):
        for is_leaf in (None, lambda part: part is None):
            pairs, structure = without_jax.flatten_with_path(tree, is_leaf)
            expected, own = jax.tree_util.tree_flatten_with_path(tree, is_leaf)
            assert [leaf for _, leaf in pairs] == [leaf for _, leaf in expected]
            names = ["".join(f"[{key!r}]" for key in path) for path, _ in pairs]
            assert names == [jax.tree_util.keystr(path) for path, _ in expected]
            assert structure.num_leaves == own.num_leaves
            assert structure.unflatten([leaf for _, leaf in pairs]) == tree


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = 3", "the code defines no model"),
        pytest.param("def model(x):\n    return x\n\nx = 'images'", "expected", marks=pytest.mark.slow),
        pytest.param("1 / 0", "ZeroDivisionError", marks=pytest.mark.slow),
        ("import numpy as np\nx = np.ones((9, 4, 4, 1))\nmodel = lambda x: np.full((9, 2), np.nan)", "NaN"),
    ],
)
def test_what_goes_wrong_is_said(shipped, source, said):
    found = in_browser(shipped, source, "C4")
    assert said in found["error"]
    assert "html" not in found
