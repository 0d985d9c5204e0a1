"""The README is true: its example runs, its figure is the book's, its links lead somewhere."""

import doctest
import json
import re
import subprocess
import sys

import pytest


@pytest.mark.parametrize(("page", "examples"), [("README.md", 4), ("CONTRIBUTING.md", 15)])
def test_the_example_runs(root, page, examples):
    result = doctest.testfile(str(root / page), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert result.attempted >= examples
    assert result.failed == 0


def test_the_figure_is_the_book_s(root):
    notebook = json.loads((root / "derivations/deferral/single_server.ipynb").read_text("utf-8"))
    (figure,) = [
        "".join(output["data"]["image/svg+xml"])
        for cell in notebook["cells"]
        if cell["metadata"].get("mystnb", {}).get("figure", {}).get("name") == "fig-single-server"
        for output in cell.get("outputs", ())
        if "image/svg+xml" in output.get("data", {})
    ]
    assert (root / "book/_static/single_server.svg").read_text("utf-8") == figure


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(root, page):
    links = re.findall(r"\]\(([^)#]+)\)", (root / page).read_text("utf-8"))
    local = [link for link in links if "://" not in link]
    assert all((root / link).exists() for link in local), local


def test_make_lists_the_commands(root):
    listed = subprocess.run(["make"], cwd=root, capture_output=True, text=True, check=True).stdout
    for command in ("book", "test", "rerun", "test-latest", "serve", "lint", "clean"):
        assert re.search(rf"^{command} ", listed, re.MULTILINE), command


@pytest.mark.parametrize("version", ["3.12", "3.13", "3.14"])
def test_the_lock_resolves_to_wheels(root, version):
    """Needs the package index; without it the test says so rather than pass."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header"]
    options = ["--only-binary", ":all:", "--python-version", version, "--no-annotate"]
    run = subprocess.run(
        [*command, *options, "requirements.txt"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    if "error sending request" in run.stderr or "dns error" in run.stderr:
        pytest.skip("the package index cannot be reached")
    assert run.returncode == 0, run.stderr
    assert "numpy==" in run.stdout
