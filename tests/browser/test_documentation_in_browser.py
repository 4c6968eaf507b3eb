"""The documentation, opened from disk: search, figures in both modes, and what a telephone shows."""

import pytest


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("load images from folder", "guide/data.html#load-images-from-a-folder"),
        ("calibration", "guide/classification.html#calibration"),
        ("OSP", "glossary.html#osp"),
    ],
)
def test_search_works_from_disk_and_finds_first_what_is_meant(visit, site, asked, answer):
    found = visit(site / "index.html")
    found.page.click("[data-md-component=search-query]")
    found.page.keyboard.type(asked)
    first = found.page.locator(".md-search-result__item").first
    first.wait_for()
    found.page.wait_for_timeout(500)
    links = [a.get_attribute("href") for a in first.locator("a").all()]
    pages = [link.partition("?")[0] + "#" + link.partition("#")[2] for link in links]
    assert any(page.endswith(answer) for page in pages), links
    assert found.errors == []
    assert found.requests == []


@pytest.mark.parametrize(("scheme", "ground"), [("light", "#ffffff"), ("dark", "#12151b")])
def test_figures_follow_the_mode(visit, site, scheme, ground):
    page = visit(site / "index.html", scheme=scheme).page
    shown = [i for i in page.locator(".drawing img").all() if i.is_visible()]
    assert len(shown) == page.locator(".drawing").count() > 0
    for image in shown:
        name = image.get_attribute("src")
        assert name.endswith(".dark.svg") == (scheme == "dark")
        assert f'fill="{ground}"' in (site / name).read_text(encoding="utf-8")
    assert page.evaluate("getComputedStyle(document.body).getPropertyValue('--ground')").strip() == ground


@pytest.mark.parametrize("name", ["index", "which-method", "gallery", "cheat-sheet", "glossary", "results/toy"])
def test_pages_fit_a_telephone(visit, site, name):
    page = visit(site / f"{name}.html", width=400).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    for image in [i for i in page.locator(".md-content .drawing img").all() if i.is_visible()]:
        if not image.evaluate("i => !!i.closest('.cards')"):
            assert image.bounding_box()["width"] >= 600, "text of 9 units in a drawing of 620 would be too small"


def test_the_chart_fits_its_boxes_and_leads_to_pages(visit, site):
    page = visit(site / "which-method.html", width=400).page
    chart = page.locator("svg.chart")
    assert chart.bounding_box()["width"] >= 350
    over = chart.evaluate(
        """svg => {
          const boxes = [...svg.querySelectorAll("rect")].map(r => r.getBBox());
          const inside = (t, b) => t.x >= b.x && t.x + t.width <= b.x + b.width && t.y >= b.y && t.y <= b.y + b.height;
          const texts = [...svg.querySelectorAll("text")].filter(t => !/^(yes|no)$/.test(t.textContent));
          return texts.filter(t => !boxes.some(b => inside(t.getBBox(), b))).map(t => t.textContent);
        }"""
    )
    assert over == []
    links = chart.evaluate("svg => [...svg.querySelectorAll('a')].map(a => a.getAttribute('href'))")
    assert len(links) >= 8
    assert all((site / link.partition("#")[0]).is_file() for link in links)
