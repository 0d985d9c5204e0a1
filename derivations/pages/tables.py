"""Tables of numbers, shown as Markdown, so that nbval compares them and the book typesets them."""

from IPython.display import Markdown
from tabulate import tabulate


def table(columns, digits=6, formats=None):
    """Return a table to show as a cell's result.

    Parameters
    ----------
    columns : mapping
        Heading (Markdown, with ``$...$`` for mathematics) to the column's values.
    digits : int
        Significant digits of floats: as many as every machine agrees on.
    formats : mapping, optional
        Heading to a format of its own, such as ``".2e"``.
    """
    formats = formats or {}
    return Markdown(
        tabulate(
            {
                heading: [
                    _cell(value, formats.get(heading, f".{digits}g"))
                    for value in values
                ]
                for heading, values in columns.items()
            },
            headers="keys",
            tablefmt="pipe",
            disable_numparse=True,
            stralign="right",
        )
    )


def _cell(value, float_format):
    if isinstance(value, str):
        return value
    if hasattr(value, "is_integer") and not isinstance(value, int) and float_format:
        return format(float(value), float_format)
    try:
        return (
            str(int(value))
            if int(value) == value
            else format(float(value), float_format)
        )
    except (TypeError, ValueError):
        return str(value)
