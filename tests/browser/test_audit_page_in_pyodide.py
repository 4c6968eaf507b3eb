"""The page that audits in the browser, by Pyodide itself: what `make test-pyodide` runs; it needs PYODIDE=FOLDER."""

import functools
import http.server
import os
import re
import threading
from pathlib import Path

import pytest

import equitangents as et

FOLDER = os.environ["PYODIDE"]  # conftest.py collects this file only where it is given


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves the site, and Pyodide below it."""

    def translate_path(self, path):
        below = path.partition("?")[0].removeprefix("/pyodide/")
        return str(Path(FOLDER) / below) if path.startswith("/pyodide/") else super().translate_path(path)

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def opened(chromium, site):
    """The page, served, with everything that it said or asked for."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    context = chromium.new_context()
    page, wrong = context.new_page(), []
    page.set_default_timeout(500_000)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("request", lambda r: wrong.append(r.url) if not r.url.startswith((address, "data:", "about:")) else None)
    page.goto(f"{address}browser/index.html?pyodide=/pyodide/")
    yield page, wrong
    context.close()
    server.shutdown()
    server.server_close()


def pressed(page):
    """What the page says once the button can be pressed again."""
    page.evaluate("document.getElementById('answer').textContent = ''")
    page.click("#run")
    page.wait_for_function(
        """() => !document.getElementById("run").disabled
          && (document.getElementById("answer").textContent
          || /not work/.test(document.getElementById("state").textContent))"""
    )
    return page.inner_text("#state") or page.inner_text("#answer")


def test_pyodide_finds_what_the_installed_package_finds(opened):
    page, wrong = opened
    names: dict = {}
    exec(page.input_value("#source"), names)
    report = et.audit(names["model"], "C4", names["x"], effort="quick")
    floorless = functools.partial(re.sub, r"floor \S+;", "floor;")  # rounding differs with the machine
    assert floorless(pressed(page)) == floorless(report.summary())
    assert "not invariant under C4" in page.frame_locator("#report").locator("body").inner_text()
    assert wrong == []


def test_pyodide_says_what_is_wrong_in_the_code(opened):
    page, wrong = opened
    page.fill(
        "#source", "import numpy as np\n\nx = np.ones((9, 4, 4, 1))\nprint('seen')\nmodel = lambda x: x / no_number"
    )
    assert pressed(page) == "Not audited."
    assert page.inner_text("#answer").startswith("seen\n")
    assert "no_number" in page.inner_text("#answer")
    assert page.locator("#report").is_hidden()
    assert wrong == []
