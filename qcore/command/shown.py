"""Answers as a table to read, as JSON, or as CSV."""

import csv
import json


def write(rows, form, stream):
    """Write rows, dictionaries with the same keys, in the form asked for."""
    if form == "json":
        json.dump(rows if len(rows) > 1 else rows[0], stream, indent=2)
        stream.write("\n")
    elif form == "csv":
        writer = csv.DictWriter(stream, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    else:
        stream.write(_table(rows))


def _table(rows):
    """One line for each measure, one column for each row."""
    names = list(rows[0])
    columns = [[_digits(row[name]) for name in names] for row in rows]
    left = max(map(len, names))
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for i, name in enumerate(names):
        cells = (column[i].rjust(width) for column, width in zip(columns, widths, strict=True))
        lines.append(f"{name.ljust(left)}  {'  '.join(cells)}".rstrip())
    return "\n".join(lines) + "\n"


def _digits(value):
    return f"{value:.6g}" if isinstance(value, float) else str(value)
