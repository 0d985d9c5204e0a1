"""One gate for all arguments: what is no number is refused by name, what converts is taken."""

import decimal
import fractions
import math
import warnings

import numpy as np
import pytest

from qcore._numerics import checks

REFUSED = {
    "a string": "3",
    "a NumPy string": np.str_("3"),
    "an array of strings": np.array(["3"]),
    "a string in a list": [1.0, "3"],
    "bytes": b"3",
    "an array of bytes": np.array([b"3"]),
    "a complex number": 1 + 0j,
    "a NumPy complex number": np.complex128(1),
    "an array of complex numbers": np.array([1 + 0j]),
    "a complex number in a list": [1.0, 1 + 0j],
    "a date": np.datetime64("2020-01-01"),
    "an array of dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
    "a time span": np.timedelta64(1, "s"),
    "a masked array": np.ma.array([1.0, 2.0], mask=[False, True]),
    "a masked array without a mask": np.ma.array([1.0, 2.0]),
    "a masked number": np.ma.masked,
    "a masked number in a list": [1.0, np.ma.masked],
    "a masked array in a list": [np.ma.array([1.0], mask=[True])],
    "True": True,
    "NumPy's True": np.True_,
    "an array of booleans": np.array([True]),
    "a boolean in a list": [True, 2.0],
    "a boolean in a nested list": [[1.0, 2.0], [3.0, True]],
    "None": None,
    "None in a list": [1.0, None],
    "an array of objects": np.array([1.0, 2.0], dtype=object),
    "an object": object(),
    "a set": {1.0},
    "a dict": {},
    "an iterator": iter([1.0]),
    "a ragged list": [1.0, [2.0, 3.0]],
    "a structure": np.array([(1, 2)], dtype="i4,i4"),
    "a signalling NaN": decimal.Decimal("sNaN"),
}
TOO_LARGE = {
    "an int": 10**400,
    "an int too long to show": -(10**5000),
    "an int in a list": [1.0, 10**400],
    "a Fraction": fractions.Fraction(10**400),
    "a Fraction too long to show": fractions.Fraction(10**5000, 3),
    "a Decimal": decimal.Decimal("1e400"),
    "a longdouble": np.longdouble("1e4000"),
    "an array of longdoubles": np.array([1, "1e4000"], dtype=np.longdouble),
}
TAKEN = [
    (3, 3.0),
    (2**1023, 2.0**1023),
    (fractions.Fraction(1, 3), 1 / 3),
    (decimal.Decimal("0.1"), 0.1),
    (np.longdouble("0.1"), 0.1),
    (np.float32(0.5), 0.5),
    (np.uint64(2**63), 2.0**63),
    (np.array(3), 3.0),
    ([fractions.Fraction(1, 4), decimal.Decimal("0.5"), 2], [0.25, 0.5, 2.0]),
    ([np.array([1, 2]), (3, 4.5)], [[1.0, 2.0], [3.0, 4.5]]),
    ([], []),
    (np.zeros((0, 3)), np.zeros((0, 3))),
    (range(3), [0.0, 1.0, 2.0]),
    (np.arange(6).reshape(2, 3).T[:, ::-1], [[3.0, 0.0], [4.0, 1.0], [5.0, 2.0]]),
    (np.array([1.0, 2.0], dtype=">f8"), [1.0, 2.0]),
    (np.array([0.5], dtype=np.longdouble), [0.5]),
]


@pytest.fixture(autouse=True)
def _no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("value", REFUSED.values(), ids=REFUSED)
def test_what_is_no_number_is_refused_by_name(value):
    with pytest.raises(ValueError, match=r"(?s)rate = .*: must be a real number or an array"):
        checks.real("rate", value)
    with pytest.raises(ValueError, match="rate = "):
        checks.scalar("rate", value)
    with pytest.raises(ValueError, match="servers = "):
        checks.count("servers", value)


@pytest.mark.parametrize("value", TOO_LARGE.values(), ids=TOO_LARGE)
def test_numbers_beyond_the_floats_are_refused_by_name(value):
    for unbounded in (False, True):
        with pytest.raises(ValueError, match=r"rate = .*: must be at most 1\.8e308 in size"):
            checks.real("rate", value, allow_infinite=unbounded)


@pytest.mark.parametrize(("value", "expected"), TAKEN, ids=lambda value: repr(value)[:20])
def test_what_converts_to_floats_is_taken(value, expected):
    taken = checks.real("rate", value)
    expected = np.array(expected, dtype=float)
    assert taken.dtype == float
    assert taken.shape == expected.shape
    assert np.array_equal(taken, expected)


def test_the_argument_is_left_alone():
    value = np.array([1.0, -0.0])
    value.flags.writeable = False
    taken = checks.real("rate", value)
    taken[0] = 2.0
    assert value[0] == 1.0
    assert math.copysign(1.0, taken[1]) == 1.0
    assert math.copysign(1.0, checks.scalar("rate", -0.0)) == 1.0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0, 0.0, 7.0, 8])
def test_the_domain_is_named(bad):
    domain = {"above": 0, "below": 7}
    message = rf"rate = {float(bad)!r}: must be finite and > 0 and < 7"
    with pytest.raises(ValueError, match=message):
        checks.scalar("rate", bad, **domain)
    with pytest.raises(ValueError, match=message):
        checks.real("rate", [[1.0], [bad]], **domain)
    assert checks.scalar("rate", 6.5, **domain) == 6.5


def test_infinity_where_it_is_allowed():
    assert checks.scalar("time", math.inf, allow_infinite=True, above=0) == math.inf
    assert checks.scalar("time", decimal.Decimal("Infinity"), allow_infinite=True) == math.inf
    with pytest.raises(ValueError, match="time = nan: must be a number, not NaN"):
        checks.scalar("time", math.nan, allow_infinite=True)


@pytest.mark.parametrize("value", [1.0, [1], np.array([1]), np.float64(1), -1, 2**63])
def test_counts_are_integers(value):
    with pytest.raises(ValueError, match=r"servers = .*: must be an integer >= 0"):
        checks.count("servers", value)


@pytest.mark.parametrize("value", [0, np.uint8(7), np.array(7), 2**63 - 1])
def test_counts_become_python_integers(value):
    taken = checks.count("servers", value)
    assert type(taken) is int
    assert taken == value


@pytest.mark.parametrize("value", [0, 1, 1.0, None, "True", np.array([True]), [True]])
def test_flags_are_booleans(value):
    with pytest.raises(ValueError, match=r"exact = .*: must be True or False"):
        checks.flag("exact", value)
    assert checks.flag("exact", np.True_) is True
    assert checks.flag("exact", False) is False


@pytest.mark.parametrize("value", [None, 1, "no", np.array(["local", "global"]), ["local"]])
def test_choices_are_among_the_words(value):
    with pytest.raises(ValueError, match=r"control = .*: must be one of 'global', 'local'"):
        checks.choice("control", value, ("global", "local"))
    assert checks.choice("control", "local", ("global", "local")) == "local"


def test_shapes_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match=r"shapes of load \(2,\), rate \(3,\): must broadcast"):
        checks.broadcast(load=np.zeros(2), rate=np.zeros(3))
    load, rate = checks.broadcast(load=np.zeros((2, 1)), rate=np.zeros(3))
    assert load.shape == rate.shape == (2, 3)
