"""Which files five calls run, one after the other: the lists of docs/guide/follow-a-call.md.

    python -m tools.calls               # write the lists anew, between the page's markers
    python -m tools.calls net.kernel    # print one of them

Every call runs once in a process of its own, with all modules imported before; files count in which a function ran.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/guide/follow-a-call.md"
MARKED = r"(?<=<!-- {} -->\n).*?(?=\n<!-- end -->)"  # what stands between the markers of a call
_FUNCTION = 1  # the flag of a function's code; bodies of classes have none


def calls() -> dict[str, Callable[[], Any]]:
    """The five calls, by the name that the page gives them."""
    import numpy as np

    import equitangents as et

    x = np.random.default_rng(0).normal(size=(12, 8, 8, 1))
    y = np.arange(12) % 2.0
    net = et.nn.Sequential(et.nn.Conv(8, (3, 3), W_std=1.4, b_std=0.1), et.nn.Relu(), et.nn.Flatten(), et.nn.Dense(1))
    infinite = et.InfiniteEnsemble(net, augmentation="C4", ridge=1e-3)
    deep = et.DeepEnsemble(net, members=2, epochs=1, augmentation="C4", learning_rate=0.1)
    few = {"members": "12", "width": "8", "train_points": "6", "orbit_points": "5", "pixels": "9", "steps": "0,1,2,3"}
    return {
        "net.kernel": lambda: net.kernel(x),
        "InfiniteEnsemble.fit": lambda: infinite.fit(x, y),
        "DeepEnsemble.fit": lambda: deep.fit(x, y),
        "audit": lambda: et.audit(lambda a: a.sum((1, 2)) ** 2, "C4", x),
        "reproduce": lambda: et.studies.run("toy", progress=False, settings=few, out=tempfile.mkdtemp()),
    }


def followed(call: Callable[[], Any]) -> list[str]:
    """The files that a call runs, in the order in which it first comes to them."""
    for package in ("equitangents", "equitangents_studies"):
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            try:
                importlib.import_module(module.name)
            except ImportError:  # of an extra that is not installed
                continue
    found: dict[str, None] = {}

    def watch(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        own = code.co_filename.startswith(f"{ROOT}/src/") and code.co_filename.endswith(".py")
        if event == "call" and own and code.co_flags & _FUNCTION:
            found.setdefault(str(Path(code.co_filename).relative_to(ROOT)), None)

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(found)


def listed(name: str) -> list[str]:
    """`followed` of a call, in a process of its own."""
    return subprocess.check_output([sys.executable, "-m", "tools.calls", name], cwd=ROOT, text=True).splitlines()


def table(files: list[str]) -> str:
    """A row for each file: where it is, and the first line of its docstring."""
    says = lambda file: (ast.get_docstring(ast.parse((ROOT / file).read_text())) or "").partition("\n")[0]
    rows = [f"| [`{file}`](../../{file}) | {says(file).replace('|', '∣')} |" for file in files]
    return "\n".join(["| file | what it holds |", "|---|---|", *rows])


def main() -> None:
    """Print the files of the call that is named, or write all lists."""
    if len(sys.argv) > 1:
        warnings.simplefilter("ignore")
        print("\n".join(followed(calls()[sys.argv[1]])))
        return
    page = PAGE.read_text()
    for name in calls():
        rows = f"\n{table(listed(name))}\n"
        found = re.search(MARKED.format(re.escape(name)), page, flags=re.DOTALL)
        page = page if found is None else page[: found.start()] + rows + page[found.end() :]
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
