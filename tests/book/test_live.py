"""Cells that run in the page, in Chromium, from the book's own folder and nowhere else."""

import functools
import http.server
import json
import os
import shutil
import threading
from pathlib import Path

import pytest

from derivations.claims import records

pytestmark = [pytest.mark.live, pytest.mark.timeout(1200)]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
REQUIRED = os.environ.get("REQUIRE_BROWSER") == "1"
NOTEBOOKS = records.notebooks(Path(records.__file__).parent.parent)
# A long chapter on a busy machine, in milliseconds.
PATIENCE = 90_000
EDIT = """([code, old, other]) => {
  if (code.textContent.split(old).length !== 2) throw Error(`not once: ${old}`);
  code.textContent = code.textContent.replace(old, other);
  code.dispatchEvent(new Event("input"));
}"""
TYPESET = """(place) => MathJax.startup.document
  .getMathItemsWithin(document.querySelector(place))[0].math"""
VERDICTS = """() => Object.fromEntries([...document.querySelectorAll(".live-holds")].map(
  (box) => [box.dataset.claim, Number(/\\((\\d+) proof/.exec(box.textContent)[1])]))"""


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def address(root):
    html = root / "_build" / "html"
    if not (html / "_static" / "live").is_dir():
        message = "the book is not built with cells that run: run `make live` first"
        if REQUIRED:
            pytest.fail(message)
        pytest.skip(message)
    handler = functools.partial(QuietHandler, directory=str(html))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        if REQUIRED:
            pytest.fail("chromium is not installed")
        pytest.skip("chromium is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            ],
        )
        yield launched
        launched.close()


@pytest.fixture
def open_chapter(browser, address):
    """Open a chapter; any error and any request to another host is noted in ``page.troubles``."""
    context = browser.new_context(viewport={"width": 390, "height": 844})

    def opened(name):
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.troubles, page.loaded = [], []
        page.on("pageerror", lambda error: page.troubles.append(str(error)))
        page.on("requestfailed", lambda request: page.troubles.append(request.url))

        def requested(request):
            page.loaded.append(request.url)
            if not request.url.startswith((address, "data:", "blob:")):
                page.troubles.append(request.url)

        page.on("request", requested)
        page.goto(f"{address}/derivations/{name}.html")
        page.evaluate("async () => { await MathJax.startup.promise; }")
        return page

    yield opened
    context.close()


def settled(page):
    """Wait until what was asked for has run; return the state in words."""
    page.wait_for_selector(":is([data-state=ready], [data-state=broken]).live-bar")
    return page.inner_text(".live-bar output")


def run(page, cell):
    """Run a cell and wait."""
    page.click(f"#cell-{cell} .live-row button")
    page.wait_for_selector(f"#cell-{cell} > .live-output > *", state="attached")
    return settled(page)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_proof_of_a_chapter_is_checked_in_the_page(open_chapter, path):
    page = open_chapter(f"{path.parent.name}/{path.stem}")
    assert not [
        url
        for url in page.loaded
        if "/live/" in url and not url.split("?")[0].endswith(("live.js", "live.css"))
    ]
    page.click(".live-all")
    words = settled(page)
    assert not page.eval_on_selector_all(
        ".live-error, .live-fails", "all => all.map((one) => one.textContent)"
    ), words
    expected = {
        record.identifier: sum(item.kind == "proved" for item in record.evidence)
        for record in records.read_notebook(path)
    }
    assert page.evaluate(VERDICTS) == {name: count for name, count in expected.items() if count}
    assert page.evaluate("document.querySelectorAll('.live-output mjx-merror').length") == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert not page.troubles


def test_a_changed_rate_turns_its_claim_red(open_chapter):
    page = open_chapter("deferral/single_server")
    claim = "#cell-claim-single-server-blocking-r"
    assert "none fails" in run(page, "claim-single-server-blocking-r")
    assert page.is_visible(f"{claim} .live-holds")
    words = page.inner_text(f"{claim} .live-holds")
    assert "single-server-blocking proved here, anew (1 proof)" in words
    assert "agrees with, simulated: not checked here, needs the full installation" in words

    code = page.query_selector("#cell-pasta-eq-lam-pi10-pi01 pre")
    page.evaluate(EDIT, [code, "Eq(lam * Pi10", "Eq(2 * lam * Pi10"])
    words = run_again(page, "claim-single-server-blocking-r")
    assert "2 fail: single-server-fractions, single-server-blocking" in words
    assert not page.is_visible(f"{claim} .live-holds")
    assert "claim single-server-blocking (proved): the difference reduces to" in page.inner_text(
        f"{claim} .live-fails"
    )

    page.click(".live-bar >> text=Reset")
    assert "Eq(lam * Pi10" in code.inner_text()
    assert page.query_selector(".live-output") is None
    assert "none fails" in run(page, "claim-single-server-blocking-r")
    assert not page.troubles


def run_again(page, cell):
    page.evaluate(
        "(id) => document.querySelector(`#cell-${id} > .live-output`).replaceChildren()", cell
    )
    return run(page, cell)


def test_the_keyboard_runs_and_a_result_is_typeset(open_chapter):
    page = open_chapter("deferral/single_server")
    cell = "#cell-blocking-sympy-together-fractions-pi11"
    code = page.locator(f"{cell} pre[contenteditable]")
    code.focus()
    page.keyboard.press("Control+End")
    page.keyboard.type("\nlam + 41")
    page.keyboard.press("Shift+Enter")
    page.wait_for_selector(f"{cell} > .live-output mjx-container")
    assert "41" in page.evaluate(TYPESET, f"{cell} > .live-output")
    assert page.is_hidden(f"{cell} > .cell_output")
    assert code.inner_text().rstrip().endswith("lam + 41"), "Shift-Enter breaks no line"
    assert not page.troubles


def test_a_run_can_be_interrupted(open_chapter):
    page = open_chapter("deferral/single_server")
    cell = "rho-lam-mu-erlang-rho"
    code = page.query_selector(f"#cell-{cell} pre")
    page.evaluate(EDIT, [code, "rho = lam / mu", "rho = lam / mu\nwhile True: pass"])
    page.click(f"#cell-{cell} .live-row button")
    page.wait_for_selector(".live-bar[data-state=running]")
    page.click(".live-stop")
    assert "interrupted" in page.inner_text(".live-bar output")
    page.evaluate(EDIT, [code, "\nwhile True: pass", ""])
    assert "ready" in run(page, cell)


def test_an_error_is_told_where_it_arises(open_chapter):
    page = open_chapter("deferral/single_server")
    code = page.query_selector("#cell-lam-mu-x-t-symbols pre")
    page.evaluate(EDIT, [code, "Lam = lam + mu", "Lam = lam + mew"])
    words = run(page, "busy-target-lam-lam-mu")
    assert "errors in cells: 1" in words
    assert page.inner_text("#cell-lam-mu-x-t-symbols .live-error").startswith("line 2: ")
    assert "Not run" in page.inner_text("#cell-busy-target-lam-lam-mu .live-error")


def test_what_cannot_run_says_so(root, open_chapter):
    silent = json.loads((root / "_build/live/single_server.json").read_text("utf-8"))["silent"]
    page = open_chapter("deferral/single_server")
    assert silent
    for cell in silent:
        assert page.query_selector(f"#cell-{cell} .live-row button") is None
        assert "make lab" in page.inner_text(f"#cell-{cell} .live-row")
