"""Where things are, for the tests."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def notebooks(root):
    return sorted(
        path
        for path in (root / "derivations").rglob("*.ipynb")
        if ".ipynb_checkpoints" not in path.parts
    )
