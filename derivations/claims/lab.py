"""Open JupyterLab on the notebooks; what it saves is normalised as by a rerun.

``python -m derivations.claims.lab deferral/esrt`` opens that notebook. The server listens on the
loopback address alone and asks for a token of its own, which the address that it prints holds.
"""

import argparse
import os
import sys

import nbformat

from derivations.claims import rerun, surroundings


def normalise_before_saving(model, **_):
    """Normalise the notebook that JupyterLab is about to save; leave other files alone."""
    if model["type"] == "notebook":
        notebook = nbformat.from_dict(model["content"])
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs = _joined(cell.outputs)
        model["content"] = rerun.normalise(notebook)


def _joined(outputs):
    """Return outputs with each stream's pieces, which arrive one by one, in one."""
    result = []
    for output in outputs:
        same = (
            result
            and output.output_type == result[-1].output_type == "stream"
            and output.name == result[-1].name
        )
        if same:
            result[-1].text += output.text
        else:
            result.append(output)
    return result


def options(notebook=None):
    """Return the command-line options of the server, opened at ``notebook`` if one is given.

    Raises ValueError if there is no such notebook.
    """
    chosen = [
        f"--ServerApp.root_dir={surroundings.ROOT}",
        "--ServerApp.ip=127.0.0.1",
        f"--FileContentsManager.pre_save_hook={__name__}.normalise_before_saving",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.news_url=None",
        "--LabApp.extension_manager=readonly",
    ]
    if notebook:
        path = rerun.FOLDER / f"{notebook.removesuffix('.ipynb')}.ipynb"
        if not path.is_file():
            raise ValueError(f"notebook = {notebook!r}: there is no {path}")
        address = path.relative_to(surroundings.ROOT).as_posix()
        chosen.append(f"--LabApp.default_url=/lab/tree/{address}")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        chosen.append("--allow-root")
    return chosen


def main(arguments=None):
    """Start the server and stay until it ends."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("notebook", nargs="?", help="such as deferral/esrt")
    parsed, others = parser.parse_known_args(arguments)
    try:
        chosen = options(parsed.notebook)
    except ValueError as error:
        parser.error(str(error))
    surroundings.settle()
    rerun.compile_afresh()
    from jupyterlab.labapp import LabApp

    LabApp.launch_instance(argv=[*chosen, *others])


if __name__ == "__main__":
    # Imported under its own name, by which the server finds the hook.
    from derivations.claims import lab

    sys.exit(lab.main())
