"""Parameters that several functions share, described once and shown in the docstring of each."""

import re
import textwrap

_PLACE = re.compile(r"^( *)%\((\w+)\)s$", re.MULTILINE)


def sharing(**blocks):
    """Return a decorator that writes each block where a docstring has the line ``%(name)s``.

    A block is indented as that line is, so that help() and the pages of the API show the whole.
    """
    texts = {name: textwrap.dedent(block).strip("\n") for name, block in blocks.items()}

    def write(function):
        if function.__doc__ is not None:  # as under python -OO
            function.__doc__ = _PLACE.sub(
                lambda place: textwrap.indent(texts[place[2]], place[1]), function.__doc__
            )
        return function

    return write
