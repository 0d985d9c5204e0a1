"""Run the cells of a chapter one by one, where SymPy is all there is: in a reader's browser.

A `Session` holds the chapter's code. To run a cell it runs those before it that set what the cell
reads, unless they have run already as they stand. Packages that are missing have stand-ins
(`absent`): proofs are checked, evidence from numbers is not, and says so.
"""

import ast
import contextlib
import functools
import hashlib
import io
import json
import sys
import traceback
import types
from dataclasses import dataclass, field, replace

from derivations.claims import absent
from derivations.claims.evidence import NOT_HERE, Check, ClaimFailed
from derivations.claims.names import changed_in_place, names
from derivations.claims.records import MEASUREMENTS, Evidence

# What makes evidence from numbers, and of which kind.
EVIDENCE = {
    "agrees": "agrees",
    "compared": "agrees",
    "simulated": "simulated",
    "simulated_order": "simulated",
    "slope": "rate",
    "extrapolated": "rate",
}
RICH = {
    "text/latex": "_repr_latex_",
    "text/html": "_repr_html_",
    "text/markdown": "_repr_markdown_",
}


@dataclass
class Outcome:
    """What running a cell gave.

    ``outputs`` are mappings of MIME types, ``needs`` says what of the full installation was
    missing, ``error`` what went wrong; ``claim`` is the identifier of a claim that failed.
    """

    cell: str
    outputs: list = field(default_factory=list)
    needs: str | None = None
    error: str | None = None
    claim: str | None = None

    def as_json(self):
        """Return it as text for another language."""
        return json.dumps(self.__dict__)


class _Shown:
    """Something to display as Markdown, LaTeX or HTML."""

    def __init__(self, kind, data):
        if isinstance(data, absent.Absent):
            raise absent.NeedsFullInstallation(repr(data))
        self.kind, self.data = kind, data


def formatted(value):
    """Return a value as a mapping of MIME types, as a notebook would show it."""
    if isinstance(value, _Shown):
        return {value.kind: value.data, "text/plain": value.data}
    data = {"text/plain": repr(value)}
    for kind, method in RICH.items():
        made = getattr(value, method, None) if not isinstance(value, type) else None
        text = made() if made else None
        if text is not None:
            data[kind] = text
    return data


def _without_ipython(session):
    """Give the notebooks' ``IPython.display`` a stand-in that shows through the session."""
    module = types.ModuleType("IPython.display")
    module.display = session.display
    for name, kind in (
        ("Markdown", "text/markdown"),
        ("Latex", "text/latex"),
        ("Math", "text/latex"),
        ("HTML", "text/html"),
    ):
        setattr(module, name, lambda data, kind=kind: _Shown(kind, data))
    sys.modules["IPython"] = types.ModuleType("IPython")
    sys.modules["IPython.display"] = module


@dataclass(frozen=True)
class Flow:
    """The names that a cell reads before it binds them, sets, binds anew, and changes in place."""

    reads: frozenset
    sets: frozenset
    binds: frozenset
    changes: frozenset


@functools.cache
def flow(source):
    """Return how names pass through a cell, statement by statement."""
    tree = ast.parse(source)
    reads, sets, binds = set(), set(), set()
    for statement in tree.body:
        read, written = names(ast.unparse(statement))
        reads |= read - binds
        sets |= written
        binds |= _bound(statement)
    return Flow(*map(frozenset, (reads, sets, binds, changed_in_place(tree))))


def imported(source):
    """Return the names that a cell imports."""
    statements = ast.parse(source).body
    return {
        name
        for one in statements
        if isinstance(one, ast.Import | ast.ImportFrom)
        for name in _bound(one)
    }


def _bound(statement):
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {one.asname or one.name.partition(".")[0] for one in statement.names}
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Assign):
        return {
            node.id
            for target in statement.targets
            for node in ast.walk(target)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
    return set()


class Session:
    """The code of a chapter, and what of it has run.

    Parameters
    ----------
    cells : sequence of (str, str)
        Identifier and source of each cell with code, in order.
    """

    def __init__(self, cells):
        self.sources = dict(cells)
        self._order = list(self.sources)
        self._imported = {
            name for source in self.sources.values() for name in imported(source)
        }
        self._names = {
            "__name__": "__main__",
            "_claimed": _claimed,
            "_made": _made,
            "_shown": _shown,
        }
        self._set = {}
        self._ran = {}
        self._outputs = []
        absent.stand_in()
        _without_ipython(self)

    def change(self, cell, source):
        """Take what the reader made of a cell."""
        self.sources[cell] = source

    def needed(self, cell):
        """Return the cells before ``cell`` that set what it and these read, in order."""
        wanted, found = set(self._flow(cell).reads), []
        for earlier in reversed(self._order[: self._order.index(cell)]):
            try:
                passing = self._flow(earlier)
            except SyntaxError:
                # Nobody knows what it sets, so it is run, and says what is wrong with it.
                found.append(earlier)
                continue
            if passing.sets & wanted:
                found.append(earlier)
                wanted = (wanted - passing.binds) | passing.reads
        return found[::-1]

    def plan(self, cell):
        """Return the cells to run for ``cell``, itself the last, those left out that need not."""
        try:
            needed = self.needed(cell)
        except SyntaxError:
            return [cell]
        stale = {one for one in needed if self._ran.get(one) != self._digest(one)}
        stale.add(cell)
        # What a cell changes in place must be made anew before the cell runs again.
        while True:
            touched = {name for one in stale for name in self._touched(one)}
            more = {
                one for one in needed if touched & self._set.get(one, {}).keys()
            } - stale
            if not more:
                return [one for one in [*needed, cell] if one in stale]
            stale |= more

    def run(self, cell):
        """Run one cell on what those before it have set; return its `Outcome`."""
        outcome = Outcome(cell)
        self._ran.pop(cell, None)
        self._outputs = outcome.outputs
        printed = io.StringIO()
        try:
            for earlier in self.needed(cell):
                self._names |= self._set.get(earlier, {})
            passing = self._flow(cell)
            for name in passing.binds - passing.reads:
                self._names.pop(name, None)
            with contextlib.redirect_stdout(printed):
                outcome.needs, failure = self._execute(cell)
            self._ran[cell] = self._digest(cell)
            if failure:
                outcome.error, outcome.claim = (
                    _told(failure, cell),
                    str(failure).split()[1],
                )
        except Exception as error:
            outcome.error = _told(error, cell)
        if printed.getvalue():
            outcome.outputs.insert(0, {"text/plain": printed.getvalue()})
        self._keep(cell)
        return outcome

    def results(self, cell):
        """Return the names that a cell has set, with their values."""
        return self._set.get(cell, {})

    def display(self, *values, raw=False, metadata=None):
        """Show values, or mappings of MIME types if ``raw``, among the cell's outputs."""
        for value in values:
            shown = dict(value) if raw else formatted(value)
            self._outputs.append(shown | ({"metadata": metadata} if metadata else {}))

    def _execute(self, cell):
        """Run a cell statement by statement.

        Return what was missing and the first claim that failed, or None. What follows neither
        waits for a number nor for a claim.
        """
        tree = ast.parse(self.sources[cell], filename=cell)
        missing = failure = None
        for place, statement in enumerate(tree.body, start=1):
            try:
                self._do(statement, cell, is_last=place == len(tree.body))
            except absent.NeedsFullInstallation as needed:
                missing = missing or str(needed)
                self._leave_absent(statement)
            except ClaimFailed as failed:
                failure = failure or failed
        return missing, failure

    def _do(self, statement, cell, is_last):
        statement = ast.fix_missing_locations(_Piecewise().visit(statement))
        if not (is_last and isinstance(statement, ast.Expr)):
            exec(compile(ast.Module([statement], []), cell, "exec"), self._names)
            return
        value = eval(
            compile(ast.Expression(statement.value), cell, "eval"), self._names
        )
        if isinstance(value, absent.Absent):
            list(value)  # refused
        if value is not None:
            self.display(value)

    def _leave_absent(self, statement):
        """Let absent what a statement that stopped would have set, or has changed in part."""
        passing = flow(ast.unparse(statement))
        for name in passing.sets - self._imported | passing.binds:
            value = self._names.get(name)
            if name not in passing.binds and _is_evidence(value):
                self._names[name] = [*value, _missing("rate")]
            elif (
                name in passing.binds
                or value is None
                or isinstance(value, list | dict | set)
            ):
                self._names[name] = absent.Absent(name)

    def _keep(self, cell):
        with contextlib.suppress(SyntaxError):
            written = self._flow(cell).sets & self._names.keys()
            self._set[cell] = {name: self._names[name] for name in written}

    def _digest(self, cell):
        parts = [self.sources[one] for one in [*self.needed(cell), cell]]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def _flow(self, cell):
        """Return the flow of names through a cell; calling what was imported changes nothing."""
        found = flow(self.sources[cell])
        untouched = self._imported - found.binds
        return replace(
            found, sets=found.sets - untouched, changes=found.changes - self._imported
        )

    def _touched(self, cell):
        with contextlib.suppress(SyntaxError):
            return self._flow(cell).changes
        return set()


def _is_evidence(value):
    return (
        isinstance(value, list)
        and value
        and all(isinstance(one, Check) for one in value)
    )


def _missing(kind):
    """Return evidence that could not even be made, and says that it is not checked here."""
    return Check(Evidence(kind, NOT_HERE), _unchecked)


def _told(error, cell):
    """Return an error in words, with the line of the cell where it arose."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == cell
    ]
    where = f"line {lines[-1]}: " if lines else ""
    return f"{where}{type(error).__name__}: {error}"


class _Piecewise(ast.NodeTransformer):
    """Rewrites a statement so that what needs numbers leaves the rest of a claim standing.

    Each argument of ``claim`` is made by a function of its own, and so is each piece of evidence
    from numbers; numbers in a claim's sentence are left out where they are missing.
    """

    def visit_Call(self, node):
        """Rewrite a call of ``claim`` or of what makes evidence from numbers."""
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else None
        if name in EVIDENCE:
            return _call("_made", node, ast.Constant(EVIDENCE[name]), _later(node))
        if name != "claim":
            return node
        if len(node.args) > 1:
            node.args[1] = _Sentence().visit(node.args[1])
        return _call(
            "_claimed",
            node,
            node.func,
            ast.List([_later(one) for one in node.args], ast.Load()),
            ast.List(
                [
                    ast.Tuple([ast.Constant(one.arg), _later(one.value)], ast.Load())
                    for one in node.keywords
                ],
                ast.Load(),
            ),
        )


class _Sentence(ast.NodeTransformer):
    """Lets dots stand for the numbers of a sentence that are missing."""

    def visit_FormattedValue(self, node):
        """Rewrite a number in a sentence."""
        shown = _call("_shown", node, _later(ast.JoinedStr([node])))
        return ast.copy_location(ast.FormattedValue(shown, -1), node)


def _call(name, node, *arguments):
    return ast.copy_location(
        ast.Call(ast.Name(name, ast.Load()), list(arguments), []), node
    )


def _later(node):
    body = ast.List([node], ast.Load()) if isinstance(node, ast.Starred) else node
    nothing = ast.arguments(
        posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    return ast.copy_location(ast.Lambda(nothing, body), node)


def _claimed(claim, pieces, stated):
    """Make a claim with what of its arguments can be made; say of the others that they cannot."""
    identifier, sentence, sources, *checks = pieces
    keywords = {}
    for name, value in stated:
        with contextlib.suppress(absent.NeedsFullInstallation):
            keywords |= value() if name is None else {name: value()}
    made = []
    if keywords.get("applies", (True, None))[0]:
        made = [piece for make in checks for piece in _pieces(make)]
    if any(one.evidence.kind in MEASUREMENTS for one in made):
        # How far evidence reaches that is not checked, or could not be made, nobody knows here.
        for name in ("status", "domain", "checked_only"):
            keywords.pop(name, None)
    claim(identifier(), sentence(), sources(), *made, **keywords)


def _pieces(make):
    """Return the pieces of evidence that ``make`` gives, at once or by functions of their own."""
    found = _made("rate", make)
    if isinstance(found, Check):
        return [found]
    if callable(found):
        return _pieces(found)
    return [piece for one in found for piece in _pieces(lambda one=one: one)]


def _made(kind, make):
    """Return the evidence that ``make`` gives, or one that says that it is not checked here."""
    try:
        found = make()
        if isinstance(found, absent.Absent):
            list(found)  # refused
        return found
    except absent.NeedsFullInstallation:
        return _missing(kind)


def _unchecked():
    return {"status": NOT_HERE}


def _shown(number):
    """Return a number in a sentence, or dots."""
    try:
        return number()
    except absent.NeedsFullInstallation:
        return "…"


def silent_cells(path):
    """Return the cells of a notebook that give nothing where numbers are missing.

    They show nothing there, and what they set is absent. Raises ValueError if a cell fails.
    """
    with open(path, encoding="utf-8") as file:
        cells = [
            cell for cell in json.load(file)["cells"] if cell["cell_type"] == "code"
        ]
    session = Session([(cell["id"], "".join(cell["source"])) for cell in cells])
    silent = []
    for cell in session.sources:
        outcome = session.run(cell)
        if outcome.error:
            raise ValueError(f"{path}, cell {cell}: {outcome.error}")
        found = session.results(cell).values()
        gives = any(not isinstance(value, absent.Absent) for value in found)
        if outcome.needs and not outcome.outputs and not gives:
            silent.append(cell)
    return silent


if __name__ == "__main__":
    # Imported under its own name, as what it stands in for is.
    from derivations.claims import live

    print(json.dumps(live.silent_cells(sys.argv[1])))
