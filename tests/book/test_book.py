"""The built book, seen by a browser: complete, self-contained, typeset, and fit for a phone."""

import asyncio
import contextlib
import functools
import http.server
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from urllib.parse import quote_plus, unquote

import pytest
import yaml

REQUIRED = os.environ.get("REQUIRE_BROWSER") == "1"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
# `make test-pages` looks closer: in between, on paper, and with axe-core in both themes, which
# takes a minute of processor time for a long chapter.
CLOSELY = os.environ.get("LOOK_CLOSELY") == "1"
closely = pytest.mark.skipif(not CLOSELY, reason="a closer look: make test-pages")
WIDTHS = (1280, 768, 390) if CLOSELY else (1280, 390)
# A page with all that it loads, in bytes.
HEAVIEST = 1_500_000
# A4 with the margins that browsers leave, in CSS pixels.
PAPER = 718
THEMES = ("light", "dark")
AT_A_TIME = 3
# A long page takes MathJax many seconds on a busy machine.
PATIENCE = 180_000
HERE = Path(__file__).parent
MEASURE = HERE / "measure.js"

UNSET = """() => [
  ...[...document.querySelectorAll("th")].filter((e) => !e.textContent.trim() &&
    !e.querySelector("mjx-container")).map(() => "a table's heading is empty"),
  ...[...document.querySelectorAll("mjx-merror")].map((e) => `mathematics: ${e.title}`),
  ...[...document.querySelectorAll(".math")].filter((e) => !e.querySelector("mjx-container"))
    .map((e) => `not typeset: ${e.textContent.slice(0, 60)}`)]"""
LINK = re.compile(r'\b(?:href|src)="([^"]+)"')
# Words of a search, and the page that it should lead to first.
SEARCHES = {
    "stability": "derivations/admission/stability",
    "one server one deferral": "derivations/deferral/single_server",
    "diffusion limit": "derivations/admission/diffusion_limit",
    "holding costs": "derivations/idling/holding_costs",
    "erlang b": "derivations/erlang/erlang_b_c_a",
}
WEIGHT = """() => performance.getEntriesByType("resource")
  .concat(performance.getEntriesByType("navigation"))
  .reduce((sum, entry) => sum + entry.decodedBodySize, 0)"""
TYPESET = "async () => { if (window.MathJax?.startup) await MathJax.startup.promise; }"
SETTLED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
# Formulas are left out: they are thousands of elements of the text's own colour. A theme changes
# colours only, so the dark one is asked about contrast and nothing else.
BARRIERS = """async (theme) => {
  document.documentElement.dataset.theme = theme;
  // A heading of nothing but a formula looks empty without it; `UNSET` looks for empty ones.
  const only = theme === "dark" ? { runOnly: ["color-contrast"] }
    : { rules: { "empty-table-header": { enabled: false } } };
  const found = await axe.run({ exclude: ["mjx-container"] },
    { resultTypes: ["violations"], preload: false, ...only });
  return found.violations.flatMap((rule) => rule.nodes.slice(0, 3).map(
    (node) => `${rule.id} (${rule.nodes.length}): ${node.target.join(" ")} ` +
      node.failureSummary.split("\\n").slice(1).join(" ").slice(0, 160)));
}"""


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
def test_a_chapter_runs_from_the_packages_that_the_book_carries(root, built, tmp_path):
    packages = built / "_static" / "packages"
    index = (packages / "index.html").read_text("utf-8")
    names = set(re.findall(r'href="([^"]+)"', index))
    assert names == {path.name for path in packages.iterdir()} - {"index.html"}
    assert sum(name.endswith(".whl") for name in names) == 2
    assert sum(name.endswith(".tar.gz") for name in names) == 2
    for page in contents(root):
        offered = "_static/packages/index.html" in (built / f"{page}.html").read_text("utf-8")
        assert offered == page.startswith("derivations"), page

    home = tmp_path / "home"
    wanted = ["queues-under-control", "queues-under-control-derivations"]
    install = [sys.executable, "-m", "uv", "--no-config", "pip", "install", "--target", str(home)]
    install += ["--python", sys.executable, "--no-deps", "--no-index", "--offline"]
    subprocess.run([*install, "--find-links", str(packages), *wanted], check=True)
    notebook = shutil.copy(built / "_sources/derivations/deferral/single_server.ipynb", tmp_path)
    rerun = [sys.executable, "-m", "derivations.claims.rerun", notebook, "--set", "loads=[0.5]"]
    done = subprocess.run(
        [*rerun, "--output", str(tmp_path / "mine.ipynb")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(home)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 holds, 0 fails" in done.stdout


@pytest.mark.book
def test_a_book_shows_run_buttons_only_if_it_brings_what_they_run(root, built):
    brings = (built / "_static/live/libraries.zip").is_file()
    for page in contents(root):
        html = (built / f"{page}.html").read_text("utf-8")
        assert ("live/live.js" in html) == (brings and page.startswith("derivations")), page


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


@pytest.mark.book
def test_no_mark_of_mathematics_is_left_in_the_text(built):
    """A formula that the builder does not see as one leaves its dollar signs behind."""
    hidden = re.compile(
        r"<(script|style|pre|code|title)\b.*?</\1>|<(span|div) class=\"[^\"]*math[^>]*>.*?</\2>",
        re.S,
    )
    left = {}
    for path in built.glob("[bd]*/**/*.html"):
        article = re.search(r"<article.*?</article>", path.read_text("utf-8"), re.S)
        text = re.sub(r"<[^>]*>", "", hidden.sub("", article[0])) if article else ""
        left[str(path.relative_to(built))] = [
            text[max(at - 60, 0) : at + 20] for at in (m.start() for m in re.finditer(r"\$", text))
        ]
    assert not listed(left)


@pytest.mark.book
def test_no_link_is_dead(built):
    text = {
        path: path.read_text("utf-8")
        for path in built.rglob("*.html")
        if "_static" not in path.parts
    }
    anchors = {
        path: set(re.findall(r'\b(?:id|name)="([^"]+)"', html)) for path, html in text.items()
    }
    dead = set()
    for path, html in text.items():
        for link in LINK.findall(re.sub(r"<!--.*?-->|<pre\b.*?</pre>", "", html, flags=re.S)):
            if re.match(r"[a-z]+:|//", link):
                continue
            file, _, anchor = unescape(link).partition("#")
            file = file.partition("?")[0]
            target = (path.parent / unquote(file)).resolve() if file else path
            known = anchors.get(target)
            if not target.exists() or (anchor and known is not None and anchor not in known):
                dead.add(f"{path.relative_to(built)}: {link}")
    assert not sorted(dead)


def test_displayed_formulas_stand_apart(root, notebooks):
    """In the middle of a paragraph the builder would take one for text."""
    texts = {page: page.read_text("utf-8") for page in (root / "book").glob("*.md")}
    for notebook in notebooks:
        cells = json.loads(notebook.read_text("utf-8"))["cells"]
        words = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
        texts[notebook] = "\n\n".join(words)
    glued = {
        str(page.relative_to(root)): re.findall(r"[^\n]\n *\$\$.*", outside_of_formulas(text))
        for page, text in texts.items()
    }
    assert not listed(glued)


def outside_of_formulas(text):
    """Return Markdown in which a displayed formula is but its first mark and first line."""
    return re.sub(r"\$\$([^$\n]*)[^$]*\$\$", r"$$\1", text)


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
def seen(root, built):
    """What a browser finds on every page, seen once for all tests below."""
    if CHROMIUM is None:
        message = "chromium is not installed: the pages were not opened in a browser"
        if REQUIRED:
            pytest.fail(message)
        pytest.skip(message)
    pages = [*contents(root), "search", "genindex", "prf-prf", "404"]
    screenshots = root / "screenshots" if os.environ.get("KEEP_SCREENSHOTS") == "1" else None
    with serving(built) as address:
        return asyncio.run(visit(address, pages, screenshots))


async def visit(address, pages, screenshots):
    """Open the pages in one browser, a few at a time; return ``{page: Findings}``."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        turns = asyncio.Semaphore(AT_A_TIME)

        async def one(name):
            async with turns:
                return await look_at(browser, address, name, screenshots)

        found = dict(zip(pages, await asyncio.gather(*map(one, pages)), strict=True))
        if "search" in found:
            found["search"].troubles += await search(browser, address)
        await browser.close()
    return found


async def search(browser, address):
    """Return what is wrong with what a reader finds who searches."""
    troubles = []
    page = await browser.new_page()
    page.set_default_timeout(PATIENCE)
    for words, expected in SEARCHES.items():
        await page.goto(f"{address}/search.html?q={quote_plus(words)}")
        await page.wait_for_selector("#search-results .search li p")
        first = await page.get_attribute("#search-results .search li a", "href")
        if expected not in first:
            troubles.append(f"{words!r} leads to {first}")
        shown = await page.inner_text("#search-results")
        if re.search(r"\\[([a-z]", shown):
            troubles.append(f"{words!r} shows TeX")
    await page.close()
    return troubles


@functools.cache
def axe_core():
    """Return the script of axe-core, which a package brings along."""
    package = Path(importlib.util.find_spec("axe_playwright_python").origin).parent
    return (package / "axe.min.js").read_text("utf-8")


@dataclass
class Findings:
    """What is wrong with a page, by the kind of trouble."""

    troubles: list = field(default_factory=list)
    cut: dict = field(default_factory=dict)
    scrolling: list = field(default_factory=list)
    barriers: list = field(default_factory=list)
    bytes: int = 0


async def look_at(browser, address, name, screenshots):
    """Return what is wrong with a page; leave a screenshot at each width if there is a folder."""
    found = Findings()
    context = await browser.new_context(viewport={"width": WIDTHS[0], "height": 900})
    page = await context.new_page()
    page.set_default_timeout(PATIENCE)
    listen(page, address, found)
    await page.goto(f"{address}/{name}.html", wait_until="load")
    await page.evaluate(TYPESET)
    found.troubles += await page.evaluate(UNSET)
    found.bytes = await page.evaluate(WEIGHT)
    if CLOSELY:
        await page.evaluate(axe_core())
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 900})
        await page.evaluate(SETTLED)
        sideways = await page.evaluate("document.documentElement.scrollWidth")
        if sideways > width:
            found.troubles.append(f"scrolls sideways at {width} px: {sideways} px wide")
        measured = await page.evaluate(MEASURE.read_text("utf-8"), False)
        found.cut[width] = measured["cut"]
        if width == WIDTHS[0]:
            found.scrolling = measured["scrolling"]
        for theme in THEMES if CLOSELY and width != 768 else ():
            barriers = await page.evaluate(BARRIERS, theme)
            found.barriers += [f"{width} px, {theme}: {barrier}" for barrier in barriers]
        if screenshots is not None:
            file = screenshots / f"{name.replace('/', '_')}_{width}.png"
            await page.screenshot(path=file, full_page=True)
    if CLOSELY:
        await page.set_viewport_size({"width": PAPER, "height": 1000})
        await page.emulate_media(media="print")
        await page.evaluate(SETTLED)
        await page.evaluate("() => { dispatchEvent(new Event('beforeprint')); }")
        found.cut["paper"] = (await page.evaluate(MEASURE.read_text("utf-8"), True))["cut"]
    await context.close()
    return found


def listen(page, address, found):
    """Note errors, failed requests and requests to other hosts."""
    trouble = found.troubles.append
    page.on("console", lambda m: trouble(f"console: {m.text}") if m.type == "error" else None)
    page.on("pageerror", lambda error: trouble(f"error: {error}"))
    page.on("requestfailed", lambda request: trouble(f"failed: {request.url}"))
    page.on("response", lambda r: trouble(f"{r.status}: {r.url}") if r.status >= 400 else None)

    def outside(request):
        if not request.url.startswith((address, "data:", "blob:")):
            trouble(f"external request: {request.url}")

    page.on("request", outside)


def listed(found):
    """Return findings as lines, or nothing."""
    return "\n".join(f"{page}: {what}" for page, whats in found.items() for what in whats)


@pytest.mark.browser
@pytest.mark.timeout(3600)
@pytest.mark.xdist_group("browser")
def test_pages_load_without_trouble_and_are_typeset(seen):
    assert not listed({page: found.troubles for page, found in seen.items()})


@pytest.mark.browser
@pytest.mark.timeout(3600)
@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("width", [*WIDTHS, pytest.param("paper", marks=closely)])
def test_nothing_is_cut_off(seen, width):
    assert not listed({page: found.cut[width] for page, found in seen.items()})


@pytest.mark.browser
@pytest.mark.timeout(3600)
@pytest.mark.xdist_group("browser")
def test_formulas_fit_a_wide_page_but_for_those_that_are_listed(root, seen):
    allowed = yaml.safe_load((root / "tests/book/too_wide.yml").read_text("utf-8")) or {}
    more = {
        page: found.scrolling
        for page, found in seen.items()
        if len(found.scrolling) > allowed.get(page, 0)
    }
    assert not listed(more)
    fewer = {
        page: f"{len(seen[page].scrolling)} left, listed are {count}"
        for page, count in allowed.items()
        if len(seen[page].scrolling) < count
    }
    assert not fewer, "shorten the list"


@closely
@pytest.mark.browser
@pytest.mark.timeout(3600)
@pytest.mark.xdist_group("browser")
def test_everyone_can_use_the_pages(seen):
    """axe-core finds no barrier, in both themes, on a laptop and on a phone."""
    assert not listed({page: found.barriers for page, found in seen.items()})


@pytest.mark.browser
@pytest.mark.timeout(3600)
@pytest.mark.xdist_group("browser")
def test_pages_are_light(seen):
    assert not listed({p: [f.bytes] for p, f in seen.items() if f.bytes > HEAVIEST})


def figure_cells(notebook):
    """Yield the cells of a notebook that show a figure."""
    for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
        if any("image/svg+xml" in output.get("data", {}) for output in cell.get("outputs", ())):
            yield cell


def test_figures_say_in_words_what_they_show(root, notebooks):
    """Not compared with words: whether a text is true. But there is one, and it is a sentence."""
    silent = set()
    for notebook in notebooks:
        for cell in figure_cells(notebook):
            words = cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", "")
            if len(words.split()) < 8 or "/" in words.split()[0]:
                silent.add(f"{notebook.relative_to(root)}: {cell['id']}")
    assert not sorted(silent)


def test_results_are_typeset(root, notebooks):
    """A reader sees a formula, a table or a figure, and nothing as Python writes it."""
    bare = [
        f"{notebook.relative_to(root)}: {cell['id']}: {''.join(output['data']['text/plain'])[:60]}"
        for notebook in notebooks
        for cell in json.loads(notebook.read_text("utf-8"))["cells"]
        for output in cell.get("outputs", ())
        if set(output.get("data", {})) == {"text/plain"}
    ]
    assert not bare


def test_every_chapter_has_exercises_with_solutions(notebooks):
    for notebook in notebooks:
        text = notebook.read_text("utf-8")
        exercises = re.findall(r"```{exercise}\\n[^`]*?:label: ([\w-]+)", text)
        assert len(exercises) >= 2, notebook
        assert set(re.findall(r"```{solution} ([\w-]+)", text)) == set(exercises), notebook


@pytest.mark.book
def test_every_drawing_in_a_page_has_words(root, built):
    for page in contents(root):
        html = (built / f"{page}.html").read_text("utf-8")
        for words in re.findall(r'<svg class="drawing" role="img" aria-label="([^"]*)"', html):
            assert len(words.split()) >= 5, (page, words)
            assert ".svg" not in words, (page, words)


@pytest.mark.book
def test_every_chapter_shows_a_figure_before_its_first_section(built, notebooks, root):
    for notebook in notebooks:
        page = built / notebook.relative_to(root).with_suffix(".html")
        article = page.read_text("utf-8").partition("<article")[2]
        assert '<svg class="drawing"' in article.partition("<h2")[0], page


def test_what_is_not_covered_is_cited_or_left_out_and_says_why(root):
    from derivations.claims import records as claim_records

    parts = yaml.safe_load((root / "book/sources.yml").read_text("utf-8"))
    entries = {label: entry for part in parts.values() for label, entry in part["labels"].items()}
    covered = claim_records.coverage(claim_records.read_all(root / "derivations"), entries)
    for label, entry in entries.items():
        assert entry["title"], label
        assert entry["statement"], label
        if covered[label]:
            assert entry["status"] == "covered", f"{label} is covered by a claim"
        else:
            assert entry["status"] in ("cited", "left out"), f"no claim covers {label}"
            assert "why" in entry, label
        assert entry.get("why", ".").strip().endswith("."), label


@pytest.mark.book
def test_sources_and_claims_lead_to_one_another(root, built):
    from derivations.claims import records as claim_records
    from derivations.claims.display import source_anchor

    sources = (built / "book/sources.html").read_text("utf-8")
    for path, records in claim_records.read_all(root / "derivations").items():
        page = (built / path.relative_to(root).with_suffix(".html")).read_text("utf-8")
        for record in records:
            for label in record.sources:
                assert f'book/sources.html#{source_anchor(label)}"' in page, record.identifier
                assert f'id="{source_anchor(label)}"' in sources
            if record.sources:
                assert f'#{record.anchor}"' in sources


@pytest.mark.book
def test_the_map_and_the_ledger_show_every_claim(root, built):
    from derivations.claims import records as claim_records

    for page in ("result_map", "ledger"):
        html = (built / f"book/{page}.html").read_text("utf-8")
        for records in claim_records.read_all(root / "derivations").values():
            for record in records:
                assert f'#{record.anchor}"' in html, (page, record.identifier)
