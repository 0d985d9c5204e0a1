"""The dictionary of symbols against what the chapters use."""

import collections
import json
import re
import sys

import pytest

# A letter, perhaps with a hat or an index, that stands alone in the text.
LETTER = re.compile(
    r"(\\(hat|tilde|bar|mathcal) ?)?(\{?[A-Za-z]\}?|\\(?!infty|sqrt)[A-Za-z]+)"
    r"(_(\{[^}]*\}|\w|\\\w+))?$"
)
# Used once, a letter is explained where it stands.
OFTEN = 2


@pytest.fixture(scope="module")
def dictionary(root):
    sys.path.insert(0, str(root / "book" / "_ext"))
    import symbols

    return symbols


def prose(notebook):
    """Return the text of a notebook."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def own_table(text, dictionary):
    """Return the symbols that the page's own tables explain."""
    own = set()
    for table in re.findall(r"^\| *symbol.*\n(?:\|.*\n?)+", text, re.MULTILINE):
        for row in table.splitlines()[2:]:
            own.update(dictionary.spellings({"symbol": row.split("|")[1]}))
    return own


def test_symbols_that_a_chapter_speaks_of_are_explained(root, notebooks, dictionary):
    entries = dictionary.read_symbols(root)
    unexplained = {}
    for notebook in notebooks:
        page = str(notebook.relative_to(root).with_suffix(""))
        text = prose(notebook)
        known = own_table(text, dictionary)
        for part in dictionary.PARTS[page.rpartition("/")[0]]:
            known.update(*map(dictionary.spellings, entries[part]))
        spoken = collections.Counter(map(dictionary.tight, dictionary.FORMULA.findall(text)))
        left = {tex for tex, count in spoken.items() if count >= OFTEN and LETTER.match(tex)}
        if left - known:
            unexplained[page] = sorted(left - known)
    assert not unexplained, "explain it in the page's table or in book/symbols.yml"


def test_every_symbol_of_the_dictionary_is_used_in_its_part(root, notebooks, dictionary):
    entries = dictionary.read_symbols(root)
    for part, symbols in entries.items():
        text = " ".join(
            dictionary.tight(prose(notebook))
            for notebook in notebooks
            if part in dictionary.PARTS[str(notebook.parent.relative_to(root))]
        )
        for entry in symbols:
            used = any(tex in text for tex in dictionary.spellings(entry))
            assert used, f"no chapter uses {entry['symbol']}, which {part} explains"


def test_a_symbol_has_one_meaning_in_a_part(root, dictionary):
    for part, symbols in dictionary.read_symbols(root).items():
        written = collections.Counter(tex for e in symbols for tex in dictionary.spellings(e))
        assert not [tex for tex, count in written.items() if count > 1], part
        assert len({dictionary.anchor(part, entry) for entry in symbols}) == len(symbols), part
