"""One headless Chromium for all tests, which notes everything that goes wrong in it."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
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


@pytest.fixture
def visit(chromium, tmp_path):
    """`visit(html, scheme="light")` opens a page, text or file, offline; a file's folder is its own."""
    contexts = []

    def open_page(html, scheme="light", width=1100):
        if isinstance(html, str):
            path = tmp_path / "page.html"
            path.write_text(html, encoding="utf-8")
            own = path.as_uri()
        else:
            path, own = html, html.parent.as_uri()
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
