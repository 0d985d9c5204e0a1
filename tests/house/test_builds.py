"""The book's builder: folders that it must not read, and static files that it must not forget."""

import subprocess
import sys

import yaml
from sphinx.project import Project

CONFIGURATION = """
import sys
sys.path.insert(0, {extensions!r})
extensions = ["offline_mathjax"]
html_static_path = ["_static"]
html_css_files = ["book.css"]
"""


def test_no_folder_of_tools_is_read(root, tmp_path):
    """Hidden folders hold Markdown of others; so do packages and builds."""
    patterns = yaml.safe_load((root / "_config.yml").read_text("utf-8"))["exclude_patterns"]
    pages = ("page.md", "derivations/part/page.md", "book/page.md")
    others = (
        ".tox/page.md",
        ".github/a/page.md",
        ".venv-latest/lib/page.md",
        "derivations/.pytest_cache/README.md",
        "derivations/part/.ipynb_checkpoints/page.md",
        "book/.hidden.md",
        "_build/html/page.md",
        "node_modules/a/README.md",
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
    )
    for name in (*pages, *others):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = Project(str(tmp_path), {".md": "markdown"}).discover(patterns)
    assert found == {name.removesuffix(".md") for name in pages}


def test_every_markdown_file_beside_the_book_is_excluded(root):
    patterns = yaml.safe_load((root / "_config.yml").read_text("utf-8"))["exclude_patterns"]
    assert {path.name for path in root.glob("*.md")} <= set(patterns)


def test_a_changed_style_sheet_reaches_a_book_that_is_built(root, tmp_path):
    source, built = tmp_path / "source", tmp_path / "built"
    (source / "_static").mkdir(parents=True)
    (source / "conf.py").write_text(CONFIGURATION.format(extensions=str(root / "book" / "_ext")))
    (source / "index.rst").write_text("A page\n======\n")
    style = source / "_static" / "book.css"

    def build(rule):
        style.write_text(rule)
        command = [sys.executable, "-m", "sphinx", "-q", "-W", source, built]
        subprocess.run(command, check=True)
        return (built / "_static" / "book.css").read_text()

    assert build("a {color: red}") == "a {color: red}"
    page = (built / "index.html").stat().st_mtime_ns
    assert build("a {color: red}") == "a {color: red}"
    assert (built / "index.html").stat().st_mtime_ns == page, "nothing changed, nothing is written"

    assert build("a {color: tan}") == "a {color: tan}"
