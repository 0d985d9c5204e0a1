"""The symbolic side, the numeric side and the simulation do not borrow from each other."""

import ast
import json
import subprocess
import sys

import pytest

# What each part of qcore may import from qcore, beside errors and checks.
BELOW = {
    "erlang": set(),
    "admission": {"erlang"},
    "diffusion": {"erlang", "admission"},
    "qed": {"erlang", "admission"},
    "deferral": {"erlang"},
    "idling": {"erlang"},
    "simulate": set(),
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


def parts_reached(name, shared, seen=()):
    """Return the parts that an imported name leads to, also through modules that parts share."""
    if not name.startswith("qcore."):
        return set()
    part = name.split(".")[1]
    if part in BELOW:
        return {part}
    if part in seen or part not in shared:
        return set()
    return {
        reached
        for further in shared[part]
        for reached in parts_reached(further, shared, (*seen, part))
    }


def test_qcore_imports_no_symbolic_package_and_only_downwards(root):
    sources = {
        path.relative_to(root / "qcore"): imported(path.read_text(encoding="utf-8"))
        for path in sorted((root / "qcore").rglob("*.py"))
    }
    shared = {
        path.stem: names
        for path, names in sources.items()
        if len(path.parts) == 1 and path.stem not in BELOW
    }
    seen = set()
    for path, names in sources.items():
        assert not {name.split(".")[0] for name in names} & {"sympy", "derivations", "tests"}, path
        part = path.parts[0].removesuffix(".py")
        if part in BELOW:
            reached = {one for name in names for one in parts_reached(name, shared)}
            assert reached <= BELOW[part] | {part}, f"{path} reaches {reached}"
            seen |= {(part, one) for one in reached}
    assert ("admission", "erlang") in seen


def test_mpmath_serves_only_to_differentiate_a_profile(root):
    users = {
        path.relative_to(root / "qcore").parts[0].removesuffix(".py")
        for path in (root / "qcore").rglob("*.py")
        if any(name.split(".")[0] == "mpmath" for name in imported(path.read_text("utf-8")))
    }
    assert users <= {"admission", "_rate_derivatives"}


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
    for path in (root / "derivations").glob("*.py"):
        names = imported(path.read_text(encoding="utf-8"))
        assert not [name for name in names if name.split(".")[0] == "qcore"], path


@pytest.mark.parametrize("package", ["scipy", "numba", "sympy", "matplotlib"])
def test_importing_qcore_is_light(package):
    code = f"import sys, qcore; sys.exit({package!r} in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_submodules_are_reached_from_qcore():
    import qcore

    for part in BELOW:
        assert getattr(qcore, part).__name__ == f"qcore.{part}"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = qcore.nothing
