"""Print the whole book as one PDF: ``python book/print_book.py [FILE]``.

The book is built as one page, typeset by MathJax in Chromium and printed with its outline, links,
page numbers and vector figures; a formula that is wider than the paper is set smaller. The code
that checks claims stays folded. The first page of the built book leads to it from then on. Chromium
has to be installed.
"""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Beside the pages, so that what was read for these is not read again.
BUILT = ROOT / "_build" / "singlehtml"
DEFAULT = ROOT / "_build" / "html" / "_static" / "queues-under-control.pdf"
FOOTER = (
    '<div style="font-size: 8px; width: 100%; text-align: center">'
    '<span class="pageNumber"></span></div>'
)
STYLE = ROOT / "book" / "_static" / "print_book.css"
PREPARE = """async () => {
  await MathJax.startup.promise;
  document.documentElement.dataset.theme = "light";
  for (const folded of document.querySelectorAll("details:not(.hide)")) folded.open = true;
}"""


def build():
    """Build the book as one page and return it."""
    command = [Path(sys.executable).with_name("jupyter-book"), "build", ROOT, "--quiet"]
    subprocess.run([*command, "--builder", "singlehtml"], check=True)
    # The first page holds the whole book; its links are written as from the root.
    return Path(shutil.copy(BUILT / "book" / "preface.html", BUILT / "book.html"))


def print_page(page, target):
    """Print a page to a PDF."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("Chromium is not installed (Debian: apt install chromium)")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        sheet = browser.new_page(viewport={"width": 672, "height": 1000}, color_scheme="light")
        sheet.set_default_timeout(600_000)
        sheet.goto(page.as_uri(), wait_until="load")
        sheet.add_style_tag(path=STYLE)
        sheet.evaluate(PREPARE)
        sheet.emulate_media(media="print")
        sheet.evaluate("() => { dispatchEvent(new Event('beforeprint')); }")
        target.parent.mkdir(parents=True, exist_ok=True)
        sheet.pdf(
            path=target,
            prefer_css_page_size=True,
            print_background=True,
            display_header_footer=True,
            header_template="<span></span>",
            footer_template=FOOTER,
            outline=True,
            tagged=True,
        )
        browser.close()


if __name__ == "__main__":
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    print_page(build(), where)
    if where == DEFAULT:
        sys.path.insert(0, str(ROOT / "book" / "_ext"))
        from page_head import offer_pdf

        offer_pdf(ROOT / "_build" / "html")
    print(f"The book is printed: {where}")
