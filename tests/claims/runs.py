"""Run code cells in a process of its own, and say of each which claims it showed.

This module imports nothing of the project, so that the process takes all of it from another tree.
"""

import contextlib
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
CLAIM = "application/vnd.qcore.claim+json"


def run_cells(tree, cells, environment, to_the_end=False, seconds=None):
    """Run code cells, pairs of identifier and source, with all imports from ``tree``.

    Returns for each cell that ran its identifier, the claim records that it showed, and its error
    as a pair of type and message, or None. The first error ends the run unless ``to_the_end``.
    Raises TimeoutError after so many seconds.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PACKAGES)
    answer, question = context.Pipe(duplex=False)
    arguments = (tree, cells, environment, to_the_end, question)
    process = context.Process(target=_run, args=arguments)
    process.start()
    question.close()
    try:
        if not answer.poll(seconds):
            raise TimeoutError(f"the cells run for more than {seconds} s")
        return answer.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"the cells ended with exit code {process.exitcode}") from None
    finally:
        # It has answered, or the test's time is over.
        process.kill()
        process.join()


def first_error(tree, sources, environment):
    """Return the message of the first of these cells that fails, or None."""
    *_, (_, _, error) = run_cells(tree, list(enumerate(sources)), environment)
    return error and ": ".join(error)


def _run(tree, cells, environment, to_the_end, question):
    import numba.core.config
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output
    from traitlets.config import Config

    sys.path.insert(0, str(tree))
    os.chdir(tree)
    os.environ.update(environment)
    numba.core.config.reload_config()
    shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    ran, shown = [], io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        for identifier, source in cells:
            with capture_output() as captured:
                result = shell.run_cell(source)
            error = result.error_before_exec or result.error_in_exec
            records = [one.data[CLAIM] for one in captured.outputs if CLAIM in one.data]
            ran.append((identifier, records, error and (type(error).__name__, str(error))))
            if error is not None and not to_the_end:
                break
    for name in ("qcore", "derivations"):
        assert Path(sys.modules[name].__file__).is_relative_to(tree), sys.modules[name].__file__
    question.send(ran)
