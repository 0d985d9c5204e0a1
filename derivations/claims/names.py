"""The names that a cell of a notebook reads and sets.

An object counts as set where a method of it is called in a statement of its own or a part of it is
assigned.
"""

import ast
import functools
import symtable


@functools.cache
def names(source):
    """Return the names that a cell reads and those that it sets, those of functions left out."""
    top = symtable.symtable(source, "cell", "exec")
    read = {name for table in _tables(top) for name in _read(table, table is top)}
    written = {
        symbol.get_name()
        for symbol in top.get_symbols()
        if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
    }
    tree = ast.parse(source)
    read |= {
        node.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
    }
    return read, written | changed_in_place(tree)


def _tables(table):
    yield table
    for child in table.get_children():
        yield from _tables(child)


def _read(table, is_top):
    return {
        symbol.get_name()
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (is_top or symbol.is_global())
    }


def changed_in_place(tree):
    """Return the names of objects whose parts are assigned, or of which a method is called."""
    changed = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Subscript):
            if not isinstance(node.ctx, ast.Load):
                changed.add(_root(node))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            changed.add(_root(node.value.func))
    return changed - {None}


def _root(node):
    """Return the name at the root of ``a.b[c].d``, or None; a plain name is not changed."""
    if isinstance(node, ast.Name):
        return None
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None
