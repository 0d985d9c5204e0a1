"""Run a notebook's code cells in a process of its own, which starts with the packages loaded.

This module imports nothing of the project, so that the process takes all of it from another tree.
"""

import contextlib
import io
import multiprocessing
import os
import sys
from pathlib import Path

PACKAGES = ["IPython", "matplotlib.pyplot", "mpmath", "nbformat", "numba", "scipy.stats", "sympy"]


def first_error(tree, notebook, environment):
    """Return the message of the first cell that fails, or None; all imports come from ``tree``."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PACKAGES)
    answer, question = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(tree, notebook, environment, question))
    process.start()
    question.close()
    try:
        return answer.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"{notebook} ended with exit code {process.exitcode}") from None
    finally:
        process.join()


def _run(tree, notebook, environment, question):
    import nbformat
    import numba.core.config
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    sys.path.insert(0, str(tree))
    os.chdir(tree)
    os.environ.update(environment)
    numba.core.config.reload_config()
    shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    error = None
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        for cell in nbformat.read(tree / notebook, as_version=4).cells:
            if cell.cell_type == "code":
                result = shell.run_cell(cell.source)
                error = result.error_before_exec or result.error_in_exec
                if error is not None:
                    break
    for name in ("qcore", "derivations"):
        assert Path(sys.modules[name].__file__).is_relative_to(tree), sys.modules[name].__file__
    question.send(error and f"{type(error).__name__}: {error}")
