"""Numbers in prose that stand there by hand: found, so that they can be counted and replaced.

``python tests/claims/prose.py`` lists them and writes how many each file has; a test holds that
no file gains one.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
COUNTS = Path(__file__).with_name("prose_numbers.json")
# Pages without results of their own; the page of benchmarks says how these measure.
LEFT_OUT = ("api", "benchmarks", "references")
# Code, quoted outputs and other roles, addresses, and numbers that only name something.
NO_PROSE = (
    re.compile(r"^```(?!\{(exercise|solution|note|admonition|prf)).*?^```", re.M | re.S),
    re.compile(r"(\{[\w:-]+\})?`[^`\n]*`"),
    re.compile(r"\]\([^)\s]*\)|https?://\S+|\bar[Xx]iv[: ]\S+|\d+\.\d+/[\w.()-]+"),
    re.compile(
        r"\b(Theorem|Theorems|Proposition|Lemma|Corollary|Section|Sections|Algorithm|Fig\.|Figure"
        r"|Python|equation|Eq\.|eq\.)[ ~]\(?\d+\.\d+\)?(?=[\W])(?! ?%)"
    ),
    re.compile(r"\(\d\.\d{1,2}\)"),
)
NUMBER = re.compile(
    r"(?<![\w.\\])\d*\.?\d+ ?(?:\\?%|per cent\b|times\b)|(?<![\w.])\d*\.\d+(?!\d*\.\d)"
)


def numbers(text):
    """Return the decimal numbers and percentages of Markdown that no cell has computed."""
    for pattern in NO_PROSE:
        text = pattern.sub(" ", text)
    return [match.group() for match in NUMBER.finditer(text)]


def passages(path):
    """Return the prose of a page or notebook: Markdown and captions."""
    if path.suffix == ".md":
        return [path.read_text(encoding="utf-8")]
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    captions = [cell["metadata"].get("mystnb", {}).get("figure", {}) for cell in cells]
    return text + [caption["caption"] for caption in captions if "caption" in caption]


def pages():
    """Return the paths of all notebooks and pages in prose."""
    pages = [path for path in (ROOT / "book").glob("*.md") if not path.stem.startswith(LEFT_OUT)]
    notebooks = [
        path for path in (ROOT / "derivations").rglob("*.ipynb")
        if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
    ]  # fmt: skip
    return sorted(pages + notebooks)


def found():
    """Return ``{path: numbers}`` for all pages that have some."""
    listed = {
        path.relative_to(ROOT).as_posix(): [
            number for text in passages(path) for number in numbers(text)
        ]
        for path in pages()
    }
    return {path: own for path, own in listed.items() if own}


def main():
    """List the numbers and write their counts."""
    listed = found()
    for path, own in listed.items():
        print(f"{path}: {', '.join(own)}")
    counts = {path: len(own) for path, own in listed.items()}
    print(f"{sum(counts.values())} numbers in {len(counts)} files")
    COUNTS.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
