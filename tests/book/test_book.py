"""The built book, seen by a browser: complete, self-contained, typeset, and fit for a phone."""

import contextlib
import functools
import http.server
import os
import shutil
import threading

import pytest
import yaml

REQUIRED = os.environ.get("REQUIRE_BROWSER") == "1"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1280, "height": 900}


def contents(root):
    """Return the pages of the table of contents, in order."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    chapters = [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]
    return [toc["root"], *chapters]


def test_every_page_is_in_the_contents_once(root, notebooks):
    pages = [*(root / "book").glob("*.md"), *notebooks]
    expected = sorted(str(page.relative_to(root).with_suffix("")) for page in pages)
    assert sorted(contents(root)) == expected


@pytest.fixture(scope="module")
def built(root):
    html = root / "_build" / "html"
    if not (html / "index.html").exists():
        if REQUIRED:
            pytest.fail("the book is not built: run `make book` first")
        pytest.skip("the book is not built: run `make book` first")
    return html


@pytest.mark.book
def test_every_page_is_built_and_can_be_downloaded(root, built):
    for page in contents(root):
        assert (built / f"{page}.html").is_file()
        suffix = "ipynb" if page.startswith("derivations") else "md"
        assert (built / "_sources" / f"{page}.{suffix}").is_file()


@pytest.mark.book
def test_the_index_leads_to_the_preface(root, built):
    assert f"url={contents(root)[0]}.html" in (built / "index.html").read_text(encoding="utf-8")


@pytest.mark.book
def test_every_claim_has_its_anchor(root, built):
    from derivations.claims import records as claim_records

    for path, records in claim_records.read_all(root / "derivations").items():
        page = built / path.relative_to(root).with_suffix(".html")
        html = page.read_text(encoding="utf-8")
        for record in records:
            assert f'id="{record.anchor}"' in html, (page, record.anchor)


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def serving(folder):
    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        message = "chromium is not installed: the pages were not opened in a browser"
        if REQUIRED:
            pytest.fail(message)
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield browser
        browser.close()


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_pages_in_a_browser(root, built, browser):
    """Open every page at both widths; report all troubles at once."""
    troubles = []
    screenshots = root / "screenshots" if os.environ.get("KEEP_SCREENSHOTS") == "1" else None
    with serving(built) as address:
        for page_name in [*contents(root), "search", "genindex"]:
            troubles += look_at(browser, address, page_name, screenshots)
    assert not troubles, "\n".join(troubles)


def look_at(browser, address, page_name, screenshots):
    """Return what is wrong with a page; leave a screenshot at each width if there is a folder."""
    troubles = []

    def trouble(what):
        troubles.append(f"{page_name}: {what}")

    page = browser.new_page(viewport=DESKTOP)
    # A long page takes MathJax many seconds on a busy machine.
    page.set_default_timeout(180_000)
    page.on("console", lambda m: m.type == "error" and trouble(f"console: {m.text}"))
    page.on("pageerror", lambda error: trouble(f"error: {error}"))
    page.on("requestfailed", lambda request: trouble(f"failed: {request.url}"))
    page.on("response", lambda r: r.status >= 400 and trouble(f"{r.status}: {r.url}"))
    page.on(
        "request",
        lambda request: (
            request.url.startswith((address, "data:", "blob:"))
            or trouble(f"external request: {request.url}")
        ),
    )
    page.goto(f"{address}/{page_name}.html", wait_until="load")
    page.wait_for_load_state("networkidle")
    page.wait_for_function("!window.MathJax || !MathJax.startup || MathJax.startup.promise")
    page.evaluate("async () => { if (window.MathJax?.startup) await MathJax.startup.promise; }")
    errors = page.locator("mjx-merror")
    for index in range(errors.count()):
        trouble(f"mathematics: {errors.nth(index).get_attribute('title')}")
    unset = page.evaluate(
        "() => [...document.querySelectorAll('.math')]"
        ".filter(e => !e.querySelector('mjx-container')).map(e => e.textContent.slice(0, 60))"
    )
    troubles.extend(f"{page_name}: not typeset: {text}" for text in unset)

    def keep(device):
        if screenshots is not None:
            name = f"{page_name.replace('/', '_')}_{device}.png"
            page.screenshot(path=screenshots / name, full_page=True)

    keep("desktop")
    page.set_viewport_size(PHONE)
    width = page.evaluate("document.documentElement.scrollWidth")
    if width > PHONE["width"]:
        trouble(f"scrolls sideways on a phone: {width} px wide")
    keep("phone")
    page.close()
    return troubles
