"""`make check` chooses what a change touches."""

import check
import pytest


@pytest.mark.parametrize(
    ("name", "tests", "notebooks", "faults"),
    [
        (
            "qcore/deferral/esrt.py",
            {"tests/deferral/test_esrt.py"},
            {"derivations/deferral/esrt.ipynb"},
            {("qcore/deferral/esrt.py", "esrt-blocking")},
        ),
        (
            "derivations/erlang/dimensioning.ipynb",
            set(),
            {"derivations/erlang/dimensioning.ipynb"},
            {("derivations/erlang/dimensioning.ipynb", "dimensioning-delay")},
        ),
        ("tests/erlang/test_erlang.py", {"tests/erlang/test_erlang.py"}, set(), set()),
        ("qcore/erlang/_kernels.py", {"tests/erlang/test_erlang.py"}, set(), set()),
        ("README.md", set(), set(), set()),
    ],
)
def test_what_a_change_touches(name, tests, notebooks, faults):
    assert tests <= set(check.touched_tests([name]))
    assert notebooks <= set(check.touched_notebooks([name]))
    assert faults <= {(one["file"], one["claim"]) for one in check.touched_faults([name])}
    if name == "README.md":
        assert len(list(check.commands([name]))) == 2


def test_what_it_does_not_touch_is_left_out():
    tests = check.touched_tests(["qcore/deferral/esrt.py"])
    assert all(name.startswith("tests/deferral/") for name in tests)
    assert check.touched_notebooks(["qcore/erlang/__init__.py"]) == []


def test_every_module_of_qcore_has_a_test_that_it_touches(root):
    """A module that no test near it imports would be edited without notice."""
    for path in sorted((root / "qcore").rglob("*.py")):
        name = str(path.relative_to(root))
        if path.name not in {"__init__.py", "__main__.py", "errors.py"}:
            assert check.touched_tests([name]), name
