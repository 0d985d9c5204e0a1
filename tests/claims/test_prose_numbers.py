"""No file gains a number in prose that no cell computes (`quoted` and glue are the way)."""

import json

import pytest
from prose import COUNTS, found, numbers


def test_no_file_gains_a_number_that_nothing_computes():
    allowed = json.loads(COUNTS.read_text(encoding="utf-8"))
    gained = {path: own for path, own in found().items() if len(own) > allowed.get(path, 0)}
    assert not gained, f"quote them (CONTRIBUTING, Adding a derivation, 4): {gained}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It saves 12.68 %, or 3.4 times $0.5$.", ["12.68 %", "3.4 times", "0.5"]),
        (r"Between 13\,% and 50 per cent: 13 % or $1.998\ldots$", ["50 per cent", "13 %", "1.998"]),
        ("Theorem 4.3 and (3.8) of [it](https://arxiv.org/abs/1910.12894), labels A.7–B.1", []),
        ("{glue:text}`saving:.2f` of `load = 0.1`", []),
        ("```python\nx = 0.5\n```\nand 0.7", ["0.7"]),
        ("```{exercise}\nShow 0.25.\n```", ["0.25"]),
    ],
)
def test_what_counts_as_a_number_in_prose(text, expected):
    assert numbers(text) == expected
