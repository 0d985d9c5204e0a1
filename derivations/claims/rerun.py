"""Re-execute notebooks and rewrite them in place, normalised; or run one with other parameters.

``python -m derivations.claims.rerun`` reruns all of them, with paths those named. Each notebook is
replaced only when it has run to its end, in one step, so that an interruption or an error leaves
the file as it was. What is written depends on the sources and results alone.

``python -m derivations.claims.rerun NOTEBOOK --set order=5 --output mine.ipynb`` runs a copy with
other parameters to its end and reports which claims hold, fail or do not apply.
"""

import argparse
import ast
import hashlib
import os
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import (
    CellExecutionError,
    CellTimeoutError,
    DeadKernelError,
)

from derivations.claims import parameters, surroundings
from derivations.claims import records as claim_records

FOLDER = Path(__file__).parent.parent
CELL_SECONDS = 120
NOTEBOOK_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
KEPT_CELL_METADATA = ("tags", "mystnb", "digest")
FIGURE_TYPES = frozenset({"image/svg+xml", "application/vnd.qcore.plot+json"})
# What leaves a notebook as it was.
FAILURES = (CellExecutionError, CellTimeoutError, DeadKernelError)
RANDOM_ID = re.compile(r"[0-9a-f]{8}([0-9a-f-]{28})?")


def compile_afresh():
    """Let Numba keep what it compiles apart for each state of the sources that it compiles.

    Numba compiles a function anew when its own file changes, not when a function that it calls
    does. Without this, a change of qcore could go unnoticed by the notebooks and tests.
    """
    cache = FOLDER.parent / ".numba_cache" / compiled_state(FOLDER.parent)
    os.environ.setdefault("NUMBA_CACHE_DIR", str(cache))


def compiled_state(root):
    """Return a digest of the files below ``root``/qcore that Numba reads.

    These are the files that compile functions, and those that they import constants from.
    """
    texts = {path: path.read_bytes() for path in sorted((root / "qcore").rglob("*.py"))}
    paths = {
        ".".join(path.relative_to(root).with_suffix("").parts): path for path in texts
    }
    chosen = {path for path, text in texts.items() if b"import njit" in text}
    for path in tuple(chosen):
        for node in ast.walk(ast.parse(texts[path])):
            if isinstance(node, ast.ImportFrom):
                named = {f"{node.module}.{alias.name}" for alias in node.names}
                chosen |= {
                    paths[name] for name in named | {node.module} if name in paths
                }
    digest = hashlib.sha256()
    for path in sorted(chosen):
        digest.update(texts[path])
    return digest.hexdigest()[:16]


class Unfit(Exception):
    """A notebook ran, but not to what a page of the book may show."""


def execute(path):
    """Return the notebook at ``path``, executed from top to bottom in a fresh kernel.

    Raises `Unfit` if a cell writes to stderr or a figure has no image, and nbclient's
    ``CellExecutionError`` if a cell fails.
    """
    notebook = run(nbformat.read(path, as_version=4), path.parent)
    require_fit(notebook, path)
    for cell, digest in zip(code_cells(notebook), digests(notebook), strict=True):
        cell.metadata["digest"] = digest
    return normalise(notebook)


def run(notebook, folder, allow_errors=False):
    """Execute ``notebook`` in place in a fresh kernel, and return it."""
    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        allow_errors=allow_errors,
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute()
    return notebook


def require_fit(notebook, path):
    """Raise `Unfit` if a cell wrote to stderr, or a figure lacks its image or its data."""
    for cell in code_cells(notebook):
        kinds = set()
        for output in cell.outputs:
            if output.get("name") == "stderr":
                raise Unfit(
                    f"{path}, cell {cell.id}: it writes to stderr: {output.text}"
                )
            kinds |= set(output.get("data", {}))
        if "figure" in cell.metadata.get("mystnb", {}) and not kinds >= FIGURE_TYPES:
            raise Unfit(
                f"{path}, cell {cell.id}: a figure without {FIGURE_TYPES - kinds}"
            )


def code_cells(notebook):
    """Return the cells of ``notebook`` that hold code."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def digests(notebook):
    """Return for each code cell a digest of the code that made its outputs.

    That is the code of all cells down to it, without blank lines and trailing blanks. A cell
    that was changed and not run, or above which one was, stores another digest than its own.
    """
    so_far, found = hashlib.sha256(), []
    for cell in code_cells(notebook):
        lines = [line.rstrip() for line in cell.source.splitlines()]
        so_far.update("\n".join([*filter(None, lines), "", ""]).encode())
        found.append(so_far.hexdigest()[:12])
    return found


def normalise(notebook):
    """Return ``notebook`` with stable identifiers, counts and metadata."""
    notebook.metadata = nbformat.from_dict(NOTEBOOK_METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    taken, count = set(), 0
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict(
            {
                key: cell.metadata[key]
                for key in KEPT_CELL_METADATA
                if key in cell.metadata
            }
        )
        cell.id = _identifier(cell, taken)
        if cell.cell_type == "code":
            count += 1
            cell.execution_count = count
            for output in cell.outputs:
                if output.output_type == "execute_result":
                    output.execution_count = count
    return notebook


def _identifier(cell, taken):
    """Return the cell's own identifier, or words of its first line if that is a random one."""
    identifier = cell.get("id", "")
    if not identifier or RANDOM_ID.fullmatch(identifier) or identifier in taken:
        words = re.findall(r"[a-z0-9]+", cell.source.lower())[:5] or [cell.cell_type]
        stem = identifier = "-".join(words)[:48]
        number = 2
        while identifier in taken:
            identifier, number = f"{stem}-{number}", number + 1
    taken.add(identifier)
    return identifier


def write(notebook, path):
    """Write ``notebook`` to ``path`` in one step."""
    nbformat.validate(notebook)
    partial = path.with_suffix(".ipynb.partial")
    nbformat.write(notebook, partial)
    os.replace(partial, path)


def with_parameters(path, changes, output=None):
    """Run the notebook at ``path`` with other parameters; return the `Verdicts` on its claims.

    Parameters
    ----------
    path : Path
        The notebook; it is left as it is.
    changes : dict
        Names of parameters to source text.
    output : Path, optional
        Where the notebook that ran is stored.

    Raises
    ------
    ValueError
        If there is no such parameter, or a value lies outside of the stated range.
    """
    changed = parameters.with_changes(nbformat.read(path, as_version=4), changes)
    stored = [record.identifier for record in claim_records.read_notebook(path)]
    verdicts = parameters.Verdicts(dict.fromkeys(stored, "not reached"))
    for cell in code_cells(run(changed, path.parent, allow_errors=True)):
        for result in cell.outputs:
            verdicts.shown(result.get("data", {}))
            if result.output_type == "error":
                verdicts.stopped(cell.id, result.ename, result.evalue)
    if output is not None:
        write(normalise(changed), output)
    return verdicts


def main(arguments=None):
    """Do what the command line says; return how many notebooks failed, or how many claims."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "notebooks", nargs="*", type=Path, help="default: all below derivations/"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="another value of a parameter, as Python; the notebook itself stays as it is",
    )
    parser.add_argument("--output", type=Path, help="where to store what ran")
    chosen = parser.parse_args(arguments)
    surroundings.settle()
    compile_afresh()
    if not chosen.set and not chosen.output:
        return _rewrite(chosen.notebooks or claim_records.notebooks(FOLDER))
    if len(chosen.notebooks) != 1:
        parser.error("--set and --output are for one notebook")
    if chosen.output and chosen.output.resolve() == chosen.notebooks[0].resolve():
        parser.error(f"--output {chosen.output}: would overwrite the notebook itself")
    changes = dict(item.partition("=")[::2] for item in chosen.set)
    try:
        verdicts = with_parameters(chosen.notebooks[0], changes, chosen.output)
    except ValueError as error:
        parser.error(str(error))
    print(verdicts.report())
    return 0 if verdicts.sound else 1


def _rewrite(paths):
    """Rerun notebooks in place; return the number that failed."""
    from tqdm import tqdm

    failed = 0
    progress = tqdm(paths, unit="notebook")
    for path in progress:
        progress.set_postfix_str(path.stem)
        try:
            write(execute(path), path)
        except (*FAILURES, Unfit) as error:
            failed += 1
            tqdm.write(f"{path} is left as it was:\n{error}", file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
