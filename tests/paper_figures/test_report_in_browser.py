"""The report's page in headless Chromium: on a phone, on a desk, dark, light, without scripts, and printed."""

from __future__ import annotations

import dataclasses

import made_up_report as made_up
import pytest
from browser import NAMES, Browser, find_browser, print_page

from paper_figures.report.page import render_page

PROGRAM = find_browser()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason=f"needs one of {', '.join(NAMES)} (Debian: chromium)")
PHONE, DESK = 390, 1200

OPEN_ALL = "document.querySelectorAll('details').forEach(item => item.open = true)"
PICTURES = "[...document.images].filter(x => !(x.complete && x.naturalWidth > 0)).map(x => x.alt)"
LINKS = """[...document.links].map(a => a.getAttribute('href'))
           .filter(x => !(x.startsWith('#') && document.getElementById(x.slice(1))))"""
WIDTH = "document.documentElement.scrollWidth"
HIDDEN_TEXT = """[...document.querySelectorAll('h1, h2, h3, p, figcaption, th, td, img')]
                 .filter(x => x.textContent.trim() || x.tagName == 'IMG')
                 .filter(x => x.getBoundingClientRect().width < 1).map(x => x.outerHTML.slice(0, 80))"""
COLORS = "(s => [s.backgroundColor, s.color])(getComputedStyle(document.body))"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    started = Browser(str(PROGRAM), tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """With a finding that has a long line and a long word, for these are what overflows."""
    folder = tmp_path_factory.mktemp("page")
    content = made_up.content(folder)
    content.evidence["verify-optimizer"].result["properties"][0] |= {
        "outcome": "fails", "findings": [{"message": "element_" * 40}], "counterexample": "x = [" + "1.25, " * 99 + "]",
    }  # fmt: skip
    claims = [{**content.claims[0], "statement": "supercalifragilistic" * 20}, *content.claims[1:]]
    return render_page(dataclasses.replace(content, claims=claims))


def problems(browser, page, folder, *, width=PHONE, dark=False):
    """What is wrong with the page at that width; its folds are opened first."""
    file = folder / "index.html"
    file.write_text(page, encoding="utf-8")
    browser.open(file, width=width, dark=dark)
    found = [f"the console says {text}" for text in browser.complaints()]
    browser.ask(OPEN_ALL)
    found += [f"no picture: {alt}" for alt in browser.ask(PICTURES)]
    found += [f"the link {link} leads nowhere" for link in browser.ask(LINKS)]
    found += [f"nothing is seen of {element}" for element in browser.ask(HIDDEN_TEXT)]
    found += [f"it asks for {url}" for url in browser.requests() if url != file.resolve().as_uri()]
    if (wide := browser.ask(WIDTH)) > width:
        found.append(f"it is {wide} pixels wide in a window of {width}")
    return found


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_nothing_is_wrong(browser, page, tmp_path, width, dark):
    assert problems(browser, page, tmp_path, width=width, dark=dark) == []
    assert browser.ask("document.images.length") == len(made_up.FIGURES) + 2  # two of the three key figures are there
    assert browser.ask("document.links.length") > 50


PLANTED = {
    "the console says": ("</main>", "<script>console.error('it broke')</script></main>"),
    "the console says {": ("</main>", "<script>undefined_function()</script></main>"),
    "no picture": ("data:image/png;base64,iVBOR", "data:image/png;base64,XXXXX"),
    "leads nowhere": ('href="#figures"', 'href="#figurez"'),
    "it asks for": ("</main>", '<link rel="stylesheet" href="missing.css"></main>'),
    "pixels wide": ("</main>", '<p style="width: 500px">wide</p></main>'),
    "pixels wide in": (".wide { overflow-x: auto;", ".wide {"),
    "nothing is seen of": ("<p>", '<p style="display: none">'),
}


@pytest.mark.parametrize("says", PLANTED)
def test_the_check_finds_planted_faults(browser, page, tmp_path, says):
    good, bad = PLANTED[says]
    assert good in page
    found = problems(browser, page.replace(good, bad, 1), tmp_path)
    assert any(says in problem for problem in found), found


BOTTOM = "(x => x.getBoundingClientRect().bottom)(document.querySelector({!r}))"
TOP = "(x => x.getBoundingClientRect().top)(document.querySelector({!r}))"


@pytest.mark.parametrize(("width", "height"), [(PHONE, 844), (1280, 800)])
def test_the_first_screen_has_the_verdicts_and_a_figure(browser, page, tmp_path, width, height):
    file = tmp_path / "index.html"
    file.write_text(page, encoding="utf-8")
    browser.open(file, width=width, height=height)
    assert browser.ask(BOTTOM.format(".tile.all")) < height
    assert browser.ask(TOP.format(".key img")) < height - 100


def test_a_verdict_can_be_chosen(browser, page, tmp_path):
    file = tmp_path / "index.html"
    file.write_text(page, encoding="utf-8")
    browser.open(file, width=DESK)
    seen = "[...document.querySelectorAll('.claim')].filter(x => x.offsetHeight).map(x => x.className)"
    everything = browser.ask(seen)
    for verdict in made_up.VERDICTS:
        name = verdict.replace(" ", "-")
        browser.ask(f"document.getElementById('only-{name}').click()")
        assert browser.ask(seen) == [look for look in everything if look == f"claim {name}"] != []
    browser.ask("document.getElementById('only-all').click()")
    assert browser.ask(seen) == everything


def test_dark_and_light_differ(browser, page, tmp_path):
    file = tmp_path / "index.html"
    file.write_text(page, encoding="utf-8")
    seen = {}
    for dark in (False, True):
        browser.open(file, width=PHONE, dark=dark)
        seen[dark] = browser.ask(COLORS)
    assert seen == {
        False: ["rgb(255, 255, 255)", "rgb(27, 27, 27)"],
        True: ["rgb(22, 24, 27)", "rgb(232, 232, 230)"],
    }


def test_it_is_whole_without_scripts(browser, page, tmp_path):
    """The same text and the same height with scripts switched off."""
    file = tmp_path / "index.html"
    file.write_text(page, encoding="utf-8")
    browser.open(file, width=PHONE)
    with_scripts = browser.call("Page.getLayoutMetrics")["cssContentSize"]
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(file, width=PHONE)
        assert browser.call("Page.getLayoutMetrics")["cssContentSize"] == with_scripts
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
    assert with_scripts["height"] > 5000


def test_it_prints(browser, page, tmp_path):
    file = tmp_path / "index.html"
    file.write_text(page, encoding="utf-8")
    printed = print_page(str(PROGRAM), file, tmp_path, width=DESK)
    assert printed.startswith(b"%PDF")
    assert printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") >= 5
    browser.open(file, width=DESK, dark=True)
    browser.call("Emulation.setEmulatedMedia", media="print", features=[])
    assert browser.ask(COLORS) == ["rgb(255, 255, 255)", "rgb(0, 0, 0)"], "no ink for a dark page"
    browser.call("Emulation.setEmulatedMedia", media="", features=[])
