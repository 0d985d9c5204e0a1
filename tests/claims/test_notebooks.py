"""Stored notebooks: executed whole and in order, clean, normalised, and fully compared by nbval."""

import json
import shutil
import subprocess
import sys

import nbformat
import pytest

from derivations.claims import rerun

# Words with which a notebook could keep nbval from comparing an output.
SWITCHES = ("nbval", "raises-exception", "PYTEST_VALIDATE")
LONGEST_CELL = 30


def stored(notebooks):
    return [(path, nbformat.read(path, as_version=4)) for path in notebooks]


def test_there_are_notebooks(notebooks):
    assert notebooks


def test_every_cell_was_executed_in_order_without_error_or_warning(notebooks):
    for path, notebook in stored(notebooks):
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        counts = [cell.execution_count for cell in code]
        assert counts == list(range(1, len(code) + 1)), path
        for cell in code:
            for output in cell.outputs:
                assert output.output_type != "error", (path, cell.id)
                assert output.get("name") != "stderr", (path, cell.id)


def test_no_cell_switches_the_comparison_off(notebooks):
    for path, notebook in stored(notebooks):
        for cell in notebook.cells:
            tags = cell.metadata.get("tags", [])
            text = " ".join(tags) + (cell.source if cell.cell_type == "code" else "")
            assert not [word for word in SWITCHES if word.lower() in text.lower()], (path, cell.id)


def test_notebooks_are_normalised(notebooks):
    """What `make rerun` would write, but for the results, is what is stored."""
    for path in notebooks:
        text = path.read_text(encoding="utf-8")
        notebook = rerun.normalise(nbformat.reads(text, as_version=4))
        assert nbformat.writes(notebook) + "\n" == text, f"run: make rerun  ({path})"


def test_each_cell_stores_the_digest_of_the_code_that_made_its_outputs(notebooks):
    """A cell that was changed and not run, or one above it, is noticed without running it."""
    for path, notebook in stored(notebooks):
        found = [cell.metadata.get("digest") for cell in rerun.code_cells(notebook)]
        assert found, path
        assert found == rerun.digests(notebook), f"run: make rerun  ({path})"


def test_each_figure_stores_its_image_and_what_it_shows(notebooks):
    for path, notebook in stored(notebooks):
        rerun.require_fit(notebook, path)


def test_a_digest_changes_with_the_code_above_and_not_with_blanks():
    def found(*sources):
        cells = [nbformat.v4.new_code_cell(source) for source in sources]
        return rerun.digests(nbformat.v4.new_notebook(cells=cells))

    first, second, third = found("a = 1\nb = 2", "c = 10", "d = 3")
    assert found("a = 1  \n\nb = 2\n", "c = 10", "d = 3") == [first, second, third]
    changed = found("a = 1\nb = 2", "c = 7", "d = 3")
    assert changed[0] == first
    assert {second, third}.isdisjoint(changed)
    assert found("a = 1", "b = 2") != found("a = 1\nb = 2")
    assert found("a = 1", "b = 2")[-1] != found("a = 1\nb = 2")[-1]


FIGURE = """import matplotlib.pyplot as plt
from derivations.pages import figures
figures.use_style()
plt.plot([1, 2], [3, 4], "{}")
plt.show()"""


def figure_notebook(source):
    notebook = small_notebook(source)
    notebook.cells[-1].metadata["mystnb"] = {"figure": {"name": "fig-one", "caption": "One."}}
    return notebook


def test_rerun_refuses_a_figure_without_an_image(tmp_path, capsys):
    path = tmp_path / "page.ipynb"
    agg = "import matplotlib\nmatplotlib.use('agg')\n"
    nbformat.write(figure_notebook(agg + FIGURE.format(":")), path)
    before = path.read_bytes()
    assert rerun.main([str(path)]) == 1
    assert "a figure without" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_a_figure_that_contradicts_its_code_is_noticed(tmp_path):
    path = tmp_path / "page.ipynb"
    nbformat.write(figure_notebook(FIGURE.format(":")), path)
    assert rerun.main([str(path)]) == 0
    notebook = nbformat.read(path, as_version=4)
    (cell,) = rerun.code_cells(notebook)
    (output,) = cell.outputs
    (axes,) = output.data["application/vnd.qcore.plot+json"]["axes"]
    assert axes["artists"][0]["data"] == ["1 2", "3 4"]
    assert axes["artists"][0]["style"] == ":"
    assert cell.metadata.digest == rerun.digests(notebook)[0]
    cell.source = cell.source.replace(":", "--")
    assert cell.metadata.digest != rerun.digests(notebook)[0]


def test_cells_are_small(notebooks):
    for path, notebook in stored(notebooks):
        for cell in notebook.cells:
            if cell.cell_type == "code":
                lines = len(cell.source.splitlines())
                assert lines <= LONGEST_CELL, f"{path}, {cell.id}: {lines} lines"


def test_each_notebook_ends_in_a_table_and_a_figure(notebooks):
    for path, notebook in stored(notebooks):
        kinds = {
            kind
            for cell in notebook.cells
            for output in cell.get("outputs", ())
            for kind in output.get("data", {})
        }
        assert {"text/markdown", "image/svg+xml"} <= kinds, path


def small_notebook(source):
    cells = [nbformat.v4.new_markdown_cell("# A page"), nbformat.v4.new_code_cell(source)]
    return nbformat.v4.new_notebook(cells=cells)


def test_rerun_writes_the_same_bytes_twice(tmp_path):
    path = tmp_path / "page.ipynb"
    nbformat.write(small_notebook("1 + 1"), path)
    assert rerun.main([str(path)]) == 0
    first = path.read_bytes()
    assert b'"2"' in first
    assert rerun.main([str(path)]) == 0
    assert path.read_bytes() == first
    assert [cell["id"] for cell in json.loads(first)["cells"]] == ["a-page", "1-1"]


@pytest.mark.parametrize("source", ["1 / 0", "import sys\n_ = sys.stderr.write('beware')"])
def test_rerun_leaves_a_notebook_that_fails_or_warns_as_it_was(tmp_path, capsys, source):
    path = tmp_path / "page.ipynb"
    nbformat.write(small_notebook(source), path)
    before = path.read_bytes()
    assert rerun.main([str(path)]) == 1
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    assert "left as it was" in capsys.readouterr().err


def nbval(root, path, *options):
    command = [sys.executable, "-m", "pytest", "--nbval", str(path), "-q", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, "--rootdir", str(root), "-c", str(root / "pyproject.toml"), *options],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )


CLAIM = (
    "from derivations.claims import argued, claim\n"
    "claim('a-claim', 'It holds.', ['A.1'], argued('above'))\n"
)


PLOTTED = (
    "from IPython.display import display\n"
    "display({'application/vnd.qcore.plot+json': {'axes': ['1 2']}}, raw=True)\n"
)


@pytest.fixture(scope="module")
def executed(root, tmp_path_factory):
    """A small executed notebook below the root, so that the root's conftest applies to it."""
    folder = root / "derivations" / "deferral" / ".nbval_test"
    folder.mkdir(exist_ok=True)
    path = folder / "page.ipynb"
    nbformat.write(small_notebook(CLAIM + PLOTTED + "print(6 * 7)"), path)
    assert rerun.main([str(path)]) == 0
    yield path
    path.unlink()
    folder.rmdir()


@pytest.mark.xdist_group("nbval")
def test_nbval_compares_numbers_unless_only_claims_are_asked_for(root, executed):
    text = executed.read_text(encoding="utf-8")
    try:
        assert nbval(root, executed).returncode == 0
        executed.write_text(text.replace('"42\\n"', '"41\\n"'), encoding="utf-8")
        run = nbval(root, executed)
        assert run.returncode == 1
        assert "42" in run.stdout
        assert nbval(root, executed, "--claims-only").returncode == 0
        executed.write_text(text.replace('"1 2"', '"1 3"'), encoding="utf-8")
        assert nbval(root, executed).returncode == 1, "what a figure shows is not compared"
        executed.write_text(text.replace('"sentence": "It holds."', '"sentence": "It fails."'))
        run = nbval(root, executed, "--claims-only")
        assert run.returncode == 1
        assert "It holds." in run.stdout
    finally:
        executed.write_text(text, encoding="utf-8")


def test_what_numba_reads_is_compiled_anew(root, tmp_path):
    shutil.copytree(root / "qcore", tmp_path / "qcore")

    def state_changes_with(name):
        before = rerun.compiled_state(tmp_path)
        with (tmp_path / "qcore" / name).open("a", encoding="utf-8") as file:
            file.write("# changed\n")
        return rerun.compiled_state(tmp_path) != before

    assert state_changes_with("erlang/_kernels.py")
    assert state_changes_with("simulate/_batches.py"), "compiled functions read its constants"
    assert not state_changes_with("diffusion.py")
