"""The symbolic side, the numeric side and the simulation do not borrow from each other."""

import ast
import json
import subprocess
import sys

import pytest

# The floors of qcore: what each part may import from other parts, beside errors. The ground,
# `_numerics`, knows no model.
BELOW = {
    "_numerics": set(),
    "erlang": {"_numerics"},
    "admission": {"_numerics", "erlang"},
    "diffusion": {"_numerics", "admission"},
    "qed": {"_numerics", "admission"},
    "deferral": {"_numerics", "erlang"},
    "idling": {"_numerics", "erlang"},
    "simulate": {"_numerics"},
}


def imported(source):
    """Return the dotted names that Python source imports, at any depth."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def qcore_imports(root):
    """Return (path below qcore, its part, dotted name imported) for every import of qcore."""
    for path in sorted((root / "qcore").rglob("*.py")):
        below = path.relative_to(root / "qcore")
        for name in sorted(imported(path.read_text(encoding="utf-8"))):
            yield below, below.parts[0].removesuffix(".py"), name


def test_qcore_imports_no_symbolic_package_and_only_downwards(root):
    seen = set()
    for path, part, name in qcore_imports(root):
        assert name.split(".")[0] not in {"sympy", "derivations", "tests"}, path
        reached = name.split(".")[1] if name.startswith("qcore.") else part
        if part in BELOW and reached != "errors":
            assert reached in BELOW[part] | {part}, f"{path} imports {name}"
            seen.add((part, reached))
    assert ("admission", "erlang") in seen
    assert {part for part, _ in seen} == set(BELOW)


def test_no_private_name_crosses_a_package(root):
    """Within qcore a leading underscore is for one package alone; the ground is for all."""
    for path, _, name in qcore_imports(root):
        if not name.startswith("qcore."):
            continue
        parts = name.split(".")
        home = ["qcore", *path.parts[:-1]]
        for place, word in enumerate(parts):
            if word.startswith("_") and word not in ("_numerics", "__version__"):
                assert home[:place] == parts[:place], f"{path} imports {name}"


def test_mpmath_serves_only_to_differentiate_a_profile(root):
    users = {part for _, part, name in qcore_imports(root) if name.split(".")[0] == "mpmath"}
    assert users <= {"admission", "qed"}


def code_cells(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            yield "\n".join(
                "" if line.startswith(("%", "!")) else line for line in source.split("\n")
            )


def names_used(source):
    return {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}


def qcore_names(source):
    """Return the names that a cell's imports from qcore bind."""
    bound = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("qcore"):
            bound |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            bound |= {
                alias.asname or alias.name.split(".")[0]
                for alias in node.names
                if alias.name.startswith("qcore")
            }
    return bound


def test_derivations_use_qcore_in_claims_tables_and_figures_only(notebooks):
    """A cell that uses qcore ends in a claim, a table or a figure, or only prepares numbers.

    No name that such a cell binds may turn up in an earlier symbolic cell, and no cell that uses
    qcore builds a symbolic expression with it.
    """
    for path in notebooks:
        bound = set()
        for source in code_cells(path):
            bound |= qcore_names(source)
            used = names_used(source)
            if used & bound:
                assert not used & {"dsolve", "solve", "symbols", "Function"}, (
                    f"{path.name}: a cell mixes qcore ({used & bound}) with a derivation:\n{source}"
                )


def test_the_helpers_of_the_derivations_do_not_import_qcore(root):
    for path in (root / "derivations").rglob("*.py"):
        names = imported(path.read_text(encoding="utf-8"))
        assert not [name for name in names if name.split(".")[0] == "qcore"], path


@pytest.mark.parametrize("package", ["scipy", "numba", "sympy", "matplotlib"])
def test_importing_qcore_is_light(package):
    code = f"import sys, qcore; sys.exit({package!r} in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_submodules_are_reached_from_qcore():
    import qcore

    for part in set(BELOW) - {"_numerics"}:
        assert getattr(qcore, part).__name__ == f"qcore.{part}"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = qcore.nothing
