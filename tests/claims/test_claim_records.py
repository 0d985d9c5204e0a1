"""Records: reading notebooks, repeated identifiers, unknown labels, and the ledger's inputs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from derivations.claims import records as claim_records
from derivations.claims.records import MIME_TYPE, ClaimRecord, Evidence, RecordError

DERIVATIONS = Path(__file__).parent.parent.parent / "derivations"


def record(identifier="a-claim", sources=("A.1",)):
    return ClaimRecord(identifier, "It holds.", sources, (Evidence("argued", "above"),))


def write(path, *records):
    outputs = [
        {"output_type": "display_data", "data": {MIME_TYPE: one.as_dict()}} for one in records
    ]
    cells = [{"cell_type": "markdown"}, {"cell_type": "code", "outputs": outputs}]
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")


def test_records_survive_storage(tmp_path):
    write(tmp_path / "a.ipynb", record(), record("another", ("B.2", "C.13")))
    assert claim_records.read_notebook(tmp_path / "a.ipynb") == [
        record(),
        record("another", ("B.2", "C.13")),
    ]


def test_a_repeated_identifier_fails_and_names_both_notebooks(tmp_path):
    write(tmp_path / "a.ipynb", record())
    write(tmp_path / "part" / "b.ipynb", record("other"))
    assert len(claim_records.read_all(tmp_path)) == 2
    write(tmp_path / "part" / "b.ipynb", record())
    with pytest.raises(RecordError, match=r"a-claim stands in .*a\.ipynb and in .*b\.ipynb"):
        claim_records.read_all(tmp_path)


def test_coverage_lists_claims_by_label_and_refuses_unknown_ones(tmp_path):
    records = {"a": [record(sources=("A.1", "A.2")), record("b", ("A.2",))]}
    covered = claim_records.coverage(records, ["A.1", "A.2", "A.3"])
    assert {label: len(claims) for label, claims in covered.items()} == {
        "A.1": 1,
        "A.2": 2,
        "A.3": 0,
    }
    with pytest.raises(RecordError, match=r"unknown source label 'A.2'"):
        claim_records.coverage(records, ["A.1"])


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"identifier": "a", "sentence": "It holds.", "sources": []},
        record().as_dict() | {"evidence": [{"kind": "guessed", "summary": "x"}]},
        record().as_dict() | {"evidence": [{"kind": "argued"}]},
    ],
)
def test_what_is_not_a_record_is_refused(stored):
    with pytest.raises(RecordError):
        ClaimRecord.from_dict(stored)


def test_repeated_summaries_are_counted():
    proved = Evidence("proved", "identity")
    argued = Evidence("argued", "above")
    one = ClaimRecord("a", "It holds.", (), (proved, argued, proved))
    assert one.summaries() == [
        "*proved*: identity (so for each of 2 pairs)",
        "*argued*: above",
    ]


def test_the_book_s_records_are_sound(root):
    parts = yaml.safe_load((root / "book" / "sources.yml").read_text(encoding="utf-8"))
    labels = [label for part in parts.values() for label in part["labels"]]
    assert labels == [
        f"{part}.{number}"
        for part, last in (("A", 23), ("B", 30), ("C", 18))
        for number in range(1, last + 1)
    ]
    records = claim_records.read_all(root / "derivations")
    claim_records.coverage(records, labels)
    assert all(records.values()), "a notebook makes no claim"


def needing(identifier, *needs):
    return ClaimRecord(identifier, "It holds.", (), (Evidence("argued", "above"),), needs=needs)


def test_what_claims_need_exists_and_runs_in_no_circle():
    records = {"a": [needing("one", "two")], "b": [needing("two"), record("three")]}
    order = list(claim_records.dependencies(records))
    assert sorted(order) == ["one", "three", "two"]
    assert order.index("two") < order.index("one")
    with pytest.raises(RecordError, match="claim one: it needs 'two', which is no claim"):
        claim_records.dependencies({"a": [needing("one", "two")]})
    circle = [needing("one", "two"), needing("two", "three"), needing("three", "one")]
    with pytest.raises(RecordError, match=r"claims in a circle: (one|two|three) needs"):
        claim_records.dependencies({"a": circle})
    with pytest.raises(RecordError, match="it cannot need 'one'"):
        needing("one", "one")


def test_the_book_s_claims_need_claims_of_the_book(root):
    claim_records.dependencies(claim_records.read_all(root / "derivations"))


@pytest.mark.parametrize("path", claim_records.notebooks(DERIVATIONS), ids=lambda path: path.stem)
def test_every_claim_states_what_it_is_and_how_far_it_reaches(path):
    wanting = {
        one.identifier: one.missing
        for one in claim_records.read_notebook(path)
        if one.missing or one.skipped
    }
    assert not wanting


def test_reading_records_needs_no_sympy():
    code = "import sys, derivations.claims.records; sys.exit('sympy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
