"""One headless Chromium for all tests, which notes everything that goes wrong in it."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from playwright.sync_api import Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
ROOT = Path(__file__).parents[2]
OPTIONS = ("--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update")


@dataclass
class Visit:
    """An open page, the errors on its console and every address it asked for beyond its own."""

    page: Page
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def chromium():
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.exit(
            "no Chromium found. Install one (Debian: apt install chromium; macOS: brew install --cask chromium), "
            "or name it with CHROMIUM=/path/to/chromium",
            returncode=1,
        )
    with sync_playwright() as playwright:
        sandbox = hasattr(os, "geteuid") and os.geteuid() != 0  # Chromium refuses its sandbox to root
        browser = playwright.chromium.launch(executable_path=path, args=list(OPTIONS), chromium_sandbox=sandbox)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The documentation, without the notebooks, which take a minute to run."""
    folder = tmp_path_factory.mktemp("site")
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder))
    last = config.plugins.events["post_build"]
    notebooks = [step for step in last if step.__module__ == "scripts/docs_notebooks.py"]
    assert len(notebooks) == 1
    last.remove(notebooks[0])
    build(config)
    return folder


@pytest.fixture
def visit(chromium, tmp_path):
    """`visit(html, scheme="light")` opens a page, text or file, offline; to a file, all files are its own."""
    contexts = []

    def open_page(html, scheme="light", width=1100):
        if isinstance(html, str):
            path = tmp_path / "page.html"
            path.write_text(html, encoding="utf-8")
            own = path.as_uri()
        else:
            path, own = html, "file:"
        context = chromium.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}, offline=True)
        contexts.append(context)
        found = Visit(context.new_page())
        found.page.on("pageerror", lambda error: found.errors.append(str(error)))
        found.page.on("console", lambda m: found.errors.append(m.text) if m.type in ("error", "warning") else None)
        found.page.on(
            "request",
            lambda r: found.requests.append(r.url) if not r.url.startswith(("data:", own)) else None,
        )
        found.page.goto(path.as_uri())
        return found

    yield open_page
    for context in contexts:
        context.close()
