"""Where things are, for the tests."""

from pathlib import Path

import pytest

from derivations.claims import records as claim_records

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def notebooks(root):
    return claim_records.notebooks(root / "derivations")
