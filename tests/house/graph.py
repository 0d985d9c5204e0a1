"""Who imports whom: read from the sources of packages and notebooks, without importing them."""

import ast
import functools
import json


@functools.cache
def imported(source):
    """Return the dotted names that Python source imports, at any depth of its blocks.

    ``from a import b`` gives ``a`` and ``a.b``: either may be the module.
    """
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names)


def modules(root, *packages):
    """Return ``{dotted name: path}`` of the modules of packages; a package is its __init__."""
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for package in packages
        for path in sorted((root / package).rglob("*.py"))
    }


def imports(root, *packages):
    """Return ``{path: paths}``: for each module of the packages, those that it imports."""
    known = modules(root, *packages)
    return {
        path: {known[name] for name in imported(path.read_text("utf-8")) if name in known} - {path}
        for path in known.values()
    }


def users(graph, path):
    """Return the modules that import ``path``, at any depth, and itself."""
    reached = {path} & set(graph)
    while True:
        wider = reached | {module for module, names in graph.items() if names & reached}
        if wider == reached:
            return reached
        reached = wider


def notebook_source(path):
    """Return the code of a notebook as one text, without its magic commands."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    lines = "\n".join(code).splitlines()
    return "\n".join(line for line in lines if not line.startswith(("%", "!")))
