"""Run what a claim needs of a notebook in a process of its own, which starts with packages loaded.

This module imports nothing of the project, so that the process takes all of it from another tree.
"""

import ast
import contextlib
import functools
import io
import multiprocessing
import os
import sys
from pathlib import Path

PACKAGES = [
    "IPython",
    "matplotlib.pyplot",
    "matplotlib_inline",
    "mpmath",
    "nbformat",
    "numba",
    "scipy.stats",
    "sympy",
]
# Methods that change the object on which they are called.
CHANGING = {
    *("add", "append", "clear", "discard", "extend", "fill", "insert", "pop", "remove", "reverse"),
    *("setdefault", "sort", "update"),
}


def python(source):
    """Return the syntax tree of a cell, whose magic commands become calls."""
    from IPython.core.inputtransformer2 import TransformerManager

    return ast.parse(TransformerManager().transform_cell(source))


@functools.cache
def names(source):
    """Return the names that a cell uses, those that it binds or changes, and whether it imports."""
    used, bound, imports = set(), set(), False
    tree = python(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imports = True
            bound |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            bound |= _names_in(node.value)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", None) in CHANGING:
            bound |= _names_in(node.func)
    # A call whose result nobody takes is there for what it changes; the last one only shows.
    for node in tree.body[:-1]:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            bound |= _names_in(node)
    return used, bound, imports


def _names_in(node):
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def needed(sources, identifier):
    """Return those of a notebook's cells that the claim needs, up to its own, in their order.

    A cell is needed if it imports, or if it binds or changes a name that a needed cell uses: also
    one further down, whose function may be called only later.
    """
    places = [place for place, source in enumerate(sources) if _claims(source, identifier)]
    if len(places) != 1:
        raise ValueError(f"claim {identifier}: made in {len(places)} cells")
    above = [(source, *names(source)) for source in sources[: places[0]]]
    own = sources[places[0]]
    wanted, before = names(own)[0], None
    while wanted != before:
        before = wanted
        kept = [cell for cell in above if cell[3] or cell[2] & wanted]
        wanted = wanted.union(*(used for _, used, _, _ in kept))
    return [*(source for source, *_ in kept), own]


def _claims(source, identifier):
    """Whether a cell makes the claim: calls something with its identifier in the first place."""
    return any(
        isinstance(node, ast.Call)
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value == identifier
        for node in ast.walk(python(source))
    )


def first_error(tree, notebook, claim, environment):
    """Return the message of the first needed cell that fails, or None.

    All imports come from ``tree``.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PACKAGES)
    answer, question = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(tree, notebook, claim, environment, question))
    process.start()
    question.close()
    try:
        return answer.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"{notebook} ended with exit code {process.exitcode}") from None
    finally:
        # It has answered, or the test's time is over.
        process.kill()
        process.join()


def _run(tree, notebook, claim, environment, question):
    import nbformat
    import numba.core.config
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    sys.path.insert(0, str(tree))
    os.chdir(tree)
    os.environ.update(environment)
    numba.core.config.reload_config()
    shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    cells = nbformat.read(tree / notebook, as_version=4).cells
    sources = [cell.source for cell in cells if cell.cell_type == "code"]
    error = None
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        for source in needed(sources, claim):
            result = shell.run_cell(source)
            error = result.error_before_exec or result.error_in_exec
            if error is not None:
                break
    for name in ("qcore", "derivations"):
        assert Path(sys.modules[name].__file__).is_relative_to(tree), sys.modules[name].__file__
    question.send(error and f"{type(error).__name__}: {error}")
