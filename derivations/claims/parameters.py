"""The parameters of a notebook: what they are, their ranges, and the notebook with other ones.

They are assigned in the cell tagged ``parameters``, each on a line of its own with its range::

    order = 3  # integer from 0 to 6: corrections after the leading term
    profile = exp(-x)  # any decreasing function of x with f(0) = 1

Numbers outside of a range ``from … to …`` are refused. What a run with other parameters says of the
claims is in `Verdicts`.
"""

import ast
import copy
import io
import re
import tokenize
from dataclasses import dataclass, field

from derivations.claims.records import MIME_TYPE, ClaimRecord

TAG = "parameters"
RANGE = re.compile(r"from (\S+) to ([^\s,:;]+)")
FAILED = re.compile(r"claim ([a-z0-9-]+) \(")


@dataclass(frozen=True)
class Parameter:
    """A parameter: its name, its value as source text, and the words behind it."""

    name: str
    value: str
    note: str

    def require(self, value):
        """Raise ValueError if ``value`` (source text) is a number outside of the range.

        A list must hold such numbers only; what is no literal is not compared.
        """
        try:
            numbers = _flat(ast.literal_eval(value))
        except (ValueError, SyntaxError):
            return
        bounds = RANGE.search(self.note)
        if not bounds:
            return
        low, high = (float(end.replace("∞", "inf")) for end in bounds.groups())
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, int | float):
                continue
            whole = "integer" not in self.note or isinstance(number, int)
            if not (low <= number <= high and whole):
                raise ValueError(f"{self.name} = {value}: must be {self.note}")


def _flat(value):
    if isinstance(value, dict):
        value = list(value.items())
    if isinstance(value, list | tuple | set):
        return [number for item in value for number in _flat(item)]
    return [value]


def parameters(notebook):
    """Return ``{name: Parameter}`` of the notebook's cells tagged ``parameters``."""
    return {
        one.name: one
        for cell in notebook["cells"]
        if TAG in cell["metadata"].get("tags", ())
        for one, _ in _assignments(_source(cell))
    }


def with_changes(notebook, changes):
    """Return a copy of the notebook with other values (source text) of some parameters.

    Raises ValueError for a name that is no parameter, a value that is no Python expression, and a
    number outside of the stated range.
    """
    known = parameters(notebook)
    for name, value in changes.items():
        if name not in known:
            listed = ", ".join(known) or "none"
            raise ValueError(
                f"{name} is no parameter of this notebook; there are: {listed}"
            )
        try:
            ast.parse(value, mode="eval")
        except SyntaxError as error:
            raise ValueError(
                f"{name} = {value}: must be a Python expression"
            ) from error
        known[name].require(value)
    changed = copy.deepcopy(notebook)
    for cell in changed["cells"]:
        if TAG in cell["metadata"].get("tags", ()):
            cell["source"] = _replaced(_source(cell), changes)
    return changed


def _source(cell):
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def _assignments(source):
    """Return the parameters that ``source`` assigns, each with its node."""
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = ast.get_source_segment(source, node.value)
            note = comments.get(node.end_lineno, "")
            found.append((Parameter(node.targets[0].id, value, note), node))
    return found


def _replaced(source, changes):
    lines = source.encode().splitlines(keepends=True)
    for one, node in reversed(_assignments(source)):
        if one.name in changes:
            first, last = node.value.lineno - 1, node.value.end_lineno - 1
            before = lines[first][: node.value.col_offset]
            after = lines[last][node.value.end_col_offset :]
            lines[first : last + 1] = [before + changes[one.name].encode() + after]
    return b"".join(lines).decode()


@dataclass
class Verdicts:
    """What a run says of each claim, and which cells stopped.

    ``claims`` maps identifiers to "holds", "fails: …", "does not apply: …" or "not reached";
    ``stops`` maps the identifiers of cells to the message of an error that no claim raised.
    """

    claims: dict[str, str]
    stops: dict[str, str] = field(default_factory=dict)

    def shown(self, data):
        """Take note of an output of a cell, a mapping of MIME types."""
        if MIME_TYPE in data:
            record = ClaimRecord.from_dict(data[MIME_TYPE])
            verdict = (
                f"does not apply: it {record.applies}" if record.skipped else "holds"
            )
            self.claims[record.identifier] = verdict

    def stopped(self, cell, error, message):
        """Take note of an error in a cell."""
        failed = FAILED.match(message) if error == "ClaimFailed" else None
        if failed:
            self.claims[failed[1]] = f"fails: {message}"
        else:
            self.stops[cell] = f"{error}: {message}"

    def having(self, verdict):
        """Return the identifiers of the claims of which the run says ``verdict``."""
        return [name for name, said in self.claims.items() if said.startswith(verdict)]

    @property
    def sound(self):
        """Whether no claim fails and no cell stops."""
        return (
            not self.stops
            and not self.having("fails")
            and not self.having("not reached")
        )

    def report(self):
        """Return a line for each claim and each cell that stopped, and a count."""
        lines = [f"{name} {said}" for name, said in self.claims.items()]
        lines += [
            f"cell {cell} stops: {message}" for cell, message in self.stops.items()
        ]
        kinds = ("holds", "fails", "does not apply", "not reached")
        counts = ", ".join(f"{len(self.having(kind))} {kind}" for kind in kinds)
        return "\n".join([*lines, f"Claims: {counts}."])
