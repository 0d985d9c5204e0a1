"""The picture of the house in CONTRIBUTING, and its table of folders, agree with the sources."""

import re

import graph


def room(path, root):
    """Return the name that the picture gives to where a file lies."""
    top, *below = path.relative_to(root).parts
    if top == "qcore":
        return below[0].removesuffix(".py")
    if top == "derivations":
        if path.suffix == ".ipynb":
            return "notebooks"
        return below[0] if below[0] in ("claims", "pages") else "helpers"
    return {"book": "extensions", "benchmarks": "benchmarks"}[top]


def arrows(root):
    """Return (from, to) for the imports between rooms; from outside, `qcore` is one room."""
    known = graph.modules(root, "qcore", "derivations")
    files = [
        *known.values(),
        *(root / "book/_ext").glob("*.py"),
        *(root / "benchmarks").glob("*.py"),
        *(path for path in (root / "derivations").rglob("*.ipynb") if ".hostile" not in str(path)),
    ]
    found = set()
    for path in files:
        if path.name == "__init__.py":
            continue
        notebook = path.suffix == ".ipynb"
        source = graph.notebook_source(path) if notebook else path.read_text("utf-8")
        here = room(path, root)
        for name in graph.imported(source):
            if name in known:
                there = room(known[name], root)
                if here != there and known[name] not in (
                    root / "qcore/__init__.py",
                    root / "derivations/__init__.py",
                ):
                    inside = path.is_relative_to(root / "qcore")
                    outside = known[name].is_relative_to(root / "qcore") and not inside
                    found.add((here, "qcore" if outside else there))
    return {(here, there) for here, there in found if there != "errors"}


def drawn(root):
    """Return the arrows of the picture, and the rooms that it shows."""
    text = (root / "CONTRIBUTING.md").read_text("utf-8")
    (picture,) = re.findall(r"```mermaid\n(.*?)```", text, re.DOTALL)
    found = set()
    for sources, targets in re.findall(r"^ *([\w &]+) --> ([\w &]+)$", picture, re.MULTILINE):
        found |= {
            (source, target) for source in sources.split(" & ") for target in targets.split(" & ")
        }
    return found


def test_the_picture_is_true(root):
    real, shown = arrows(root), drawn(root)
    assert not real - shown, "imports that the picture does not show"
    assert not shown - real, "arrows that no import stands for"


def test_the_table_of_folders_names_what_is_there(root):
    text = (root / "CONTRIBUTING.md").read_text("utf-8")
    named = set(re.findall(r"^\| `([\w/.]+)/` \|", text, re.MULTILINE))
    assert all((root / name).is_dir() for name in named)
    packages = {f"qcore/{path.parent.name}" for path in (root / "qcore").glob("*/__init__.py")}
    packages |= {
        f"derivations/{path.parent.name}" for path in (root / "derivations").glob("*/__init__.py")
    }
    assert packages <= named | {"qcore", "derivations"}, packages - named
