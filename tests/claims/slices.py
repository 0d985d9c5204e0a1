"""Which cells of a notebook a change of parameters reaches, and which ones a claim needs.

Names are followed through the cells: a cell is reached if it reads a name that a reached cell
sets, and it is needed if it sets a name that a reached or needed cell reads. Order is
not considered, so that rather too many cells are chosen than too few.
"""

import ast
import functools

from derivations.claims.names import names

# Methods that change the object on which they are called.
CHANGING = {
    *("add", "append", "clear", "discard", "extend", "fill", "insert", "pop", "remove", "reverse"),
    *("setdefault", "sort", "update"),
}


@functools.cache
def _handed_over(source):
    """Return the names of objects that a cell may change without saying so.

    These are the arguments of a call whose result nobody takes (the last one of a cell only shows
    it), and what a method of `CHANGING` is called on.
    """
    tree = ast.parse(source)
    changed = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", None) in CHANGING:
            changed |= _names_in(node.func)
    for node in tree.body[:-1]:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            changed |= _names_in(node)
    return changed


def _names_in(node):
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def chosen(sources, first, changed):
    """Return the indices of the cells that must run when the names ``changed`` are other ones.

    ``first`` is the index of the cell that sets them. The second set holds those cells that the
    change reaches; the others are only needed by these.
    """
    cells = [names(source) for source in sources]
    reached, tainted = set(), set(changed)
    while more := {place for place, (read, _) in enumerate(cells) if read & tainted} - reached:
        reached |= more
        tainted |= {name for place in more - {first} for name in cells[place][1]}
    needed, more = set(), reached | {first}
    while more:
        needed |= more
        wanted = {name for place in needed for name in cells[place][0]}
        more = {place for place, (_, written) in enumerate(cells) if written & wanted} - needed
    return needed, reached


def needed(sources, identifier):
    """Return those of a notebook's cells that the claim needs, up to its own, in their order."""
    places = [place for place, source in enumerate(sources) if _claims(source, identifier)]
    if len(places) != 1:
        raise ValueError(f"claim {identifier}: made in {len(places)} cells")
    above = [(source, names(source)) for source in sources[: places[0]]]
    own = sources[places[0]]
    wanted, before = names(own)[0], None
    while wanted != before:
        before = wanted
        kept = [
            (source, read)
            for source, (read, written) in above
            if (written | _handed_over(source)) & wanted
        ]
        wanted = wanted.union(*(read for _, read in kept))
    return [*(source for source, _ in kept), own]


@functools.cache
def _claims(source, identifier):
    """Whether a cell makes the claim: calls something with its identifier in the first place."""
    return any(
        isinstance(node, ast.Call)
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value == identifier
        for node in ast.walk(ast.parse(source))
    )
