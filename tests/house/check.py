"""After an edit: style, and the tests, notebooks and planted faults that it touches.

What is touched is found from the imports: of a changed module, the modules of its own package that
use it and those elsewhere that import it themselves; the tests that import one of these, in the
folder that mirrors its package; the faults planted in it, and the notebooks that notice them. All
else is left to `make test`, which says so in the end.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

import graph

ROOT = Path(__file__).parent.parent.parent
FAULTS = "tests/claims/test_mutations.py"


def git(*words):
    """Return the lines that a command of git prints."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.split("\0") if line]


def changed():
    """Return the files changed since the last commit, or those of it if there are none."""
    names = git("diff", "--name-only", "-z", "HEAD")
    names += git("ls-files", "--others", "--exclude-standard", "-z")
    names = names or git("diff", "--name-only", "-z", "HEAD~1")
    return sorted({name for name in names if (ROOT / name).is_file()})


def touched_modules(names, root=ROOT):
    """Return the modules whose work a change of these files may change, nearby."""
    links = graph.imports(root, "qcore", "derivations")
    found = set()
    for name in names:
        path = root / name
        near = {module for module in graph.users(links, path) if part(module) == part(path)}
        found |= near | {module for module, used in links.items() if path in used}
    return found


def part(path):
    """Return the name of the package, below qcore or derivations, to which a module belongs."""
    words = path.parts
    for package in ("qcore", "derivations"):
        if package in words:
            return words[len(words) - words[::-1].index(package)].removesuffix(".py")
    return None


def touched_tests(names, root=ROOT):
    """Return the test files that changed or that import a touched module, in its mirror."""
    near = touched_modules(names, root)
    known = {path: name for name, path in graph.modules(root, "qcore", "derivations").items()}
    dotted = {known[path] for path in near}
    dotted |= {name.rpartition(".")[0] for name in dotted if name.count(".") > 1}
    parts = {part(path) for path in near}
    found = {root / name for name in names if Path(name).match("tests/**/test_*.py")}
    for path in (root / "tests").rglob("test_*.py"):
        if path.parent.name in parts and graph.imported(path.read_text("utf-8")) & dotted:
            found.add(path)
    return sorted(str(path.relative_to(root)) for path in found if path.name != Path(FAULTS).name)


def touched_faults(names, root=ROOT):
    """Return the planted faults, as tables, that lie in these files or are noticed there."""
    faults = []
    for path in sorted((root / "tests/claims/mutations").glob("*.toml")):
        for fault in tomllib.loads(path.read_text("utf-8"))["mutation"]:
            if {fault["file"], fault["notebook"], str(path.relative_to(root))} & set(names):
                faults.append(fault)
    return faults


def touched_notebooks(names, root=ROOT):
    """Return the notebooks that changed, and those that notice a fault in a changed file."""
    found = {name for name in names if name.endswith(".ipynb") and name.startswith("derivations/")}
    return sorted(found | {fault["notebook"] for fault in touched_faults(names, root)})


def commands(names):
    """Return the commands that check a change of these files."""
    python = [sys.executable, "-m"]
    pytest = [*python, "pytest", "-q", "-n", "2"]
    yield [*python, "ruff", "check", "."]
    yield [*python, "ruff", "format", "--check", "."]
    if tests := touched_tests(names):
        yield [
            *pytest,
            "--dist",
            "loadgroup",
            "-m",
            "not slow and not browser and not book",
            *tests,
        ]
    if notebooks := touched_notebooks(names):
        yield [*pytest, "--dist", "loadscope", "--nbval", *notebooks]
    if faults := touched_faults(names):
        test = f"{FAULTS}::test_a_planted_fault_is_noticed"
        yield [*pytest, *(f"{test}[{fault['file']}:{fault['claim']}]" for fault in faults)]


def main():
    """Run the checks in turn, each with its command; return the number that failed."""
    names = changed()
    print("changed:", *names or ["nothing"], sep="\n  ", flush=True)
    failed = 0
    for command in commands(names):
        print("\n$", *command[1:], flush=True)
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        # 5: the marked tests were all there were.
        failed += code not in (0, 5)
    print("\nThis was what lies near; `make test` runs everything.")
    return failed


if __name__ == "__main__":
    sys.exit(main())
