"""Plant single-token faults and see whether tests and claims notice.

``python -m tools.mutants --seed 1 --count 20`` draws faults over the modules of ``qcore`` and over
the code cells of the notebooks, plants each in a copy of the tree, and runs what should notice: for
a module the tests that import its package, for a cell the notebook, where a claim or another error
must stop it (a mere difference in an output, which a rerun would store, does not count). What
happened is written to ``tools/mutants_report.md``. Survivors that change nothing that matters stand
with the reason in ``tools/equivalent_mutants.toml``.
"""

import argparse
import ast
import functools
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import tokenize
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
# The helper that runs cells in a process of its own lies beside the tests that use it.
sys.path.append(str(ROOT / "tests" / "claims"))
REPORT = Path(__file__).with_name("mutants_report.md")
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.toml")
SECONDS = 600
SWAPS = {
    "+": "-", "-": "+", "*": "/", "/": "*", "**": "*", "//": "/",
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=",
    "and": "or", "or": "and", "True": "False", "False": "True",
    "min": "max", "max": "min", "sin": "cos", "cos": "sin", "exp": "expm1", "log": "log1p",
}  # fmt: skip
# Statements whose tokens are words for people, or choose what is drawn.
SHOWN = ("plt", "figures", "table", "quoted", "try_this")
# How far and how exactly a claim is checked: another choice is no fault.
RANGES = ("integers", "logarithmic", "uniform")
SETTINGS = (
    "tolerance", "digits", "points", "within", "detects", "standard_errors", "domain",
    "customers", "seed", "margin",
)  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """One token replaced by another in a file; ``cell`` is the index of a notebook's cell."""

    file: str
    cell: int | None
    line: int
    column: int
    old: str
    new: str
    text: str

    def __str__(self):
        place = f"cell {self.cell}, line {self.line}" if self.cell is not None else f"{self.line}"
        return f"{self.file}:{place}: {self.old} → {self.new} in {self.text.strip()}"

    @property
    def key(self):
        """What names the fault as long as its line does not change."""
        return f"{self.file}: {self.text.strip()}: {self.old} → {self.new} at {self.column}"


def faults_in(source, file, cell=None):
    """Return every single-token fault of a piece of source."""
    left_out = _left_out(source)
    lines = source.splitlines()
    found = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if any(start <= token.start < end for start, end in left_out):
            continue
        new = SWAPS.get(token.string)
        if token.type == tokenize.NUMBER:
            new = _other_number(token.string)
        if new is not None and not _is_sign(token, lines):
            line, column = token.start
            found.append(Fault(file, cell, line, column, token.string, new, lines[line - 1]))
    return found


def _other_number(text):
    if text.isdigit():
        return str(int(text) + 1)
    try:
        return f"{float(text) * 1.01:.12g}"
    except ValueError:
        return None


def _is_sign(token, lines):
    """Whether a star or slash stands in a signature or call, not between two numbers."""
    before = lines[token.start[0] - 1][: token.start[1]].rstrip()
    return token.string in ("*", "**", "/") and (not before or before[-1] in "(,[{")


def _left_out(source):
    """Return where imports, words for people, what is only shown, and ranges of checks stand."""
    places = []
    for node in ast.walk(ast.parse(source)):
        out = isinstance(node, ast.Import | ast.ImportFrom | ast.Raise | ast.JoinedStr)
        if isinstance(node, ast.Expr):
            out = isinstance(node.value, ast.Constant) or _root(node.value) in SHOWN
        if isinstance(node, ast.Call):
            out = _root(node) in RANGES
        if isinstance(node, ast.keyword):
            out = node.arg in SETTINGS
        if out:
            places.append(
                (
                    (node.lineno, len(_line(source, node)[: node.col_offset].decode())),
                    (node.end_lineno, node.end_col_offset),
                )
            )
    return places


def _line(source, node):
    return source.splitlines()[node.lineno - 1].encode()


def _root(node):
    node = node.func if isinstance(node, ast.Call) else node
    while isinstance(node, ast.Attribute):
        node = node.value
    return getattr(node, "id", "")


@functools.cache
def all_faults():
    """Return the faults of all modules of ``qcore`` and of all cells of notebooks, by kind."""
    modules, cells = [], []
    for path in sorted((ROOT / "qcore").rglob("*.py")):
        modules += faults_in(path.read_text("utf-8"), path.relative_to(ROOT).as_posix())
    for path in sorted((ROOT / "derivations").glob("*/*.ipynb")):
        notebook = json.loads(path.read_text("utf-8"))["cells"]
        for place, cell in enumerate(notebook):
            tags = cell["metadata"].get("tags", ())
            if cell["cell_type"] == "code" and not {"parameters", "hide-input"} & set(tags):
                file = path.relative_to(ROOT).as_posix()
                cells += faults_in("".join(cell["source"]), file, place)
    return {"qcore": modules, "derivations": cells}


def plant(fault, root):
    """Write the fault into the tree below ``root``."""
    path = root / fault.file
    text = path.read_text("utf-8")
    if fault.cell is None:
        path.write_text(_replaced(text, fault), "utf-8")
        return
    notebook = json.loads(text)
    cell = notebook["cells"][fault.cell]
    cell["source"] = _replaced("".join(cell["source"]), fault).splitlines(keepends=True)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False), "utf-8")


def _replaced(source, fault):
    lines = source.splitlines(keepends=True)
    line, end = lines[fault.line - 1], fault.column + len(fault.old)
    assert line[fault.column : end] == fault.old, fault
    lines[fault.line - 1] = line[: fault.column] + fault.new + line[end:]
    return "".join(lines)


def imports(path):
    """Return the dotted names that a module or notebook imports."""
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n".join("".join(one["source"]) for one in cells if one["cell_type"] == "code")
    named = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            named |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return named


def package(file):
    """Return the public package or module of ``qcore`` that a file belongs to."""
    parts = Path(file).with_suffix("").parts
    return ".".join(parts[:2])


def tests_for(file):
    """Return the modules of tests that a module of ``qcore`` needs, the nearest first."""
    name = package(file)
    is_ground = name.endswith("._numerics")
    modules = [
        path
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if path.parent.name not in ("claims", "house", "book", "pages")
        and any(
            one.startswith("qcore") if is_ground else one == name or one.startswith(name + ".")
            for one in imports(path)
        )
    ]
    own = Path(file).stem.strip("_")
    modules.sort(key=lambda path: (own not in path.stem, path.parent.name != name.split(".")[-1]))
    return [path.relative_to(ROOT).as_posix() for path in modules]


def noticed(fault, tree):
    """Plant a fault in ``tree``; return what notices it, or None."""
    original = (tree / fault.file).read_bytes()
    plant(fault, tree)
    try:
        return (_by_tests if fault.cell is None else _by_claims)(fault, tree)
    except (subprocess.TimeoutExpired, TimeoutError):
        return "the time limit"
    finally:
        (tree / fault.file).write_bytes(original)


def _by_tests(fault, tree):
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("NUMBA_CACHE_DIR", None)
    for module in tests_for(fault.file):
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", module],
            cwd=tree,
            env=environment,
            capture_output=True,
            timeout=SECONDS,
        )
        if run.returncode:
            return module
    return None


def _by_claims(fault, tree):
    from runs import run_cells

    cells = [
        (str(place), "".join(cell["source"]))
        for place, cell in enumerate(json.loads((tree / fault.file).read_text("utf-8"))["cells"])
        if cell["cell_type"] == "code"
    ]
    environment = {"NUMBA_CACHE_DIR": str(tree.parent / "compiled")}
    *_, (_, _, error) = run_cells(tree, cells, environment, seconds=SECONDS)
    return error and ": ".join(error)[:80]


def sample(seed, count, kinds=("qcore", "derivations")):
    """Return ``count`` faults of each kind, always the same for a seed."""
    everything = all_faults()
    chosen = random.Random(seed)
    return [
        fault
        for kind in kinds
        for fault in chosen.sample(everything[kind], min(count, len(everything[kind])))
    ]


def equivalent():
    """Return ``{key: reason}`` of the faults that change nothing that matters."""
    listed = tomllib.loads(EQUIVALENT.read_text("utf-8")).get("equivalent", [])
    return {one["fault"]: one["reason"] for one in listed}


def report(results, seed):
    """Return the report in Markdown: counts by kind, and every survivor."""
    reasons = equivalent()
    lines = []
    for kind in ("qcore", "derivations"):
        own = {fault: by for fault, by in results.items() if fault.file.startswith(kind)}
        if not own:
            continue
        excused = [fault for fault, by in own.items() if by is None and fault.key in reasons]
        survivors = [fault for fault, by in own.items() if by is None and fault.key not in reasons]
        matter = len(own) - len(excused)
        lines.append(
            f"- `{kind}`: {len(own)} drawn with seed {seed}, {len(excused)} of them "
            f"equivalent; {matter - len(survivors)} of the other {matter} noticed."
        )
        lines += [f"  - not noticed: `{fault}`" for fault in survivors]
        lines += [f"  - equivalent ({reasons[fault.key]}): `{fault}`" for fault in excused]
    return "\n".join(lines) + "\n"


def main(arguments=None):
    """Draw, plant, run and report; return the number of survivors."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=150, help="of each kind")
    parser.add_argument("--only", choices=("qcore", "derivations"))
    parser.add_argument("--output", type=Path, default=REPORT)
    chosen = parser.parse_args(arguments)
    kinds = (chosen.only,) if chosen.only else ("qcore", "derivations")
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        hidden = shutil.ignore_patterns(".*", "_build", "__pycache__", "*.egg-info")
        shutil.copytree(ROOT, tree, ignore=hidden)
        for fault in sample(chosen.seed, chosen.count, kinds):
            results[fault] = noticed(fault, tree)
            print(f"{results[fault] or 'NOT NOTICED'}: {fault}", flush=True)
            # Written after each, so that an interruption loses nothing.
            chosen.output.write_text(report(results, chosen.seed), "utf-8")
    reasons = equivalent()
    return sum(by is None and fault.key not in reasons for fault, by in results.items())


if __name__ == "__main__":
    sys.exit(min(main(), 1))
