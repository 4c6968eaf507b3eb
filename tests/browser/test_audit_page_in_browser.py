"""The page that audits in the browser, with a Pyodide of the test's own in place of the one from the network."""

import base64
import io
import json
import zipfile

import pytest

PYODIDE = """
window.loadPyodide = async (options) => {
  window.asked = { options, packages: [], imports: [], archives: [], audits: [] };
  return {
    loadPackage: async (names) => window.asked.packages.push(...names),
    unpackArchive: (bytes, kind, to) => window.asked.archives.push({ kind, to, first: [...bytes.slice(0, 4)] }),
    pyimport: (name) => {
      window.asked.imports.push(name);
      return { audited: (source, group) => ({ toJs: () => {
        window.asked.audits.push({ source, group });
        if (group === "wrong") return { error: "group is 'wrong'", printed: "" };
        return { sentence: "invariant under " + group, html: "<p id=done>the report</p>", printed: "seen\\n" };
      } }) };
    },
  };
};
"""


@pytest.fixture(scope="module")
def page_file(site):
    folder = site / "browser" / "pyodide"
    folder.mkdir()
    (folder / "pyodide.js").write_text(PYODIDE, encoding="utf-8")
    return site / "browser" / "index.html"


def test_the_page_ships_an_archive_with_the_package_and_its_own_files(site):
    script = (site / "browser" / "equitangents.js").read_text(encoding="utf-8")
    packed = base64.b64decode(script.removeprefix('window.EQUITANGENTS = "').removesuffix('";\n'))
    names = zipfile.ZipFile(io.BytesIO(packed)).namelist()
    assert {"audit_here.py", "without_jax.py", "equitangents/__init__.pyi"} <= set(names)
    assert "equitangents/report/templates/shell.html.jinja" in names
    assert len(script) < 3e6


def test_a_press_of_the_button_audits_and_shows_the_report(visit, page_file):
    found = visit(page_file, query="?pyodide=pyodide/")
    page = found.page
    page.fill("#group", " D4 ")
    page.click("#run")
    page.locator("#answer").wait_for()
    assert page.inner_text("#answer") == "seen\ninvariant under D4"
    assert page.frame_locator("#report").locator("#done").inner_text() == "the report"
    asked = json.loads(page.evaluate("JSON.stringify(window.asked)"))
    assert asked["packages"] == ["numpy", "scipy", "jinja2"]
    assert asked["imports"] == ["numpy", "scipy", "jinja2", "audit_here"]
    assert asked["archives"] == [{"kind": "zip", "to": {"extractDir": "/home/pyodide"}, "first": list(b"PK\x03\x04")}]
    assert asked["audits"][0]["source"].startswith("import numpy as np\n")
    page.fill("#group", "wrong")
    page.click("#run")
    page.get_by_text("Not audited.").wait_for()
    assert page.inner_text("#answer") == "group is 'wrong'"
    assert page.locator("#report").is_hidden()
    assert len(json.loads(page.evaluate("JSON.stringify(window.asked)"))["audits"]) == 2, "Python is loaded once"
    assert found.errors == []
    assert found.requests == []


def test_without_the_network_the_page_says_so_and_can_be_tried_again(visit, page_file):
    found = visit(page_file)
    assert found.requests == [], "nothing is loaded before the button is pressed"
    found.page.click("#run")
    found.page.get_by_text("is there a network?").wait_for()
    assert found.page.locator("#run").is_enabled()
    assert [r.startswith("https://cdn.jsdelivr.net/pyodide/") for r in found.requests] == [True]
