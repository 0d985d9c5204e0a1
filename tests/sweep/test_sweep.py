"""Every public function takes hostile arguments: a value in range, or an error that names them.

The functions are found by introspection, so that a new one is swept as soon as it has its domain
in `domains.ENTRIES`; without it `test_every_public_function_has_its_domain` fails.
"""

import dataclasses
import datetime
import decimal
import fractions
import functools
import importlib
import inspect
import itertools
import math
import numbers
import pkgutil
import re
import time
import warnings
import zlib

import numpy as np
import pytest
from domains import ENTRIES, Count, Flag, Real, Thing

import qcore

SECONDS = 1.0  # of CPU for each call, once it is compiled

NO_NUMBERS = {
    "a string": "3",
    "a NumPy string": np.str_("3"),
    "bytes": b"3",
    "True": True,
    "NumPy's True": np.True_,
    "None": None,
    "a complex number": 1.0 + 0.0j,
    "a NumPy complex number": np.complex128(1.0),
    "a date": datetime.date(2020, 1, 1),
    "a NumPy date": np.datetime64("2020-01-01"),
    "a time span": np.timedelta64(1, "s"),
    "a masked array": np.ma.array([1.0, 2.0], mask=[False, True]),
    "a masked number": np.ma.masked,
    "an array of objects": np.array([1.0, None], dtype=object),
    "an array of strings": np.array(["1", "2"]),
    "an array of complex numbers": np.array([1.0 + 0.0j]),
    "an array of booleans": np.array([True]),
    "an object": object(),
    "a dict": {},
    "NaN": math.nan,
    "a NaN in an array": np.array([1.0, math.nan]),
    "10**400": 10**400,
    "Decimal NaN": decimal.Decimal("NaN"),
}
NUMBERS = [
    math.inf,
    -math.inf,
    -1,
    -0.0,
    0,
    5e-324,
    1e-300,
    1e-17,
    1 - 2**-53,
    1 + 2**-52,
    1e17,
    1e300,
    1.7976931348623157e308,
    2**31,
    2**53 + 1,
    2**63,
    10**30,
]


def public_modules():
    """Yield every module of qcore that says by ``__all__`` what it offers."""
    for found in pkgutil.walk_packages(qcore.__path__, "qcore."):
        if not any(part.startswith("_") for part in found.name.split(".")):
            module = importlib.import_module(found.name)
            if hasattr(module, "__all__"):
                yield module


def public_functions():
    """Yield (name, object) for every public function, class and method of a class."""
    for module in public_modules():
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.ismodule(value) or not callable(value):
                continue
            yield f"{module.__name__}.{name}", value
            if inspect.isclass(value) and not inspect.isabstract(value):
                for method, function in inspect.getmembers(value, inspect.isfunction):
                    if not method.startswith("_"):
                        yield f"{module.__name__}.{name}.{method}", function


FOUND = dict(public_functions())
SWEPT = [name for name in FOUND if ENTRIES.get(name) is not None]


def function_of(name):
    entry = ENTRIES[name]
    if entry.owner is None:
        return FOUND[name]
    return getattr(entry.owner, name.rpartition(".")[2])


def base_of(name):
    return {key: domain.base for key, domain in ENTRIES[name].parameters.items()}


class Failure(Exception):
    """What a call did that it must not do."""


def call(name, arguments):
    """Return the result of a public function, or the ValueError that it raises."""
    function = function_of(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # What docstrings announce: a simulation too short for its errors or for its start.
        warnings.filterwarnings("ignore", "(customers|warmup) = ", UserWarning)
        for attempt in itertools.count():
            start = time.process_time()
            try:
                result = function(**arguments)
            except ValueError as error:
                result = error
            except Exception as error:
                raise Failure(f"raises {type(error).__name__}: {error}") from error
            seconds = time.process_time() - start
            if seconds <= SECONDS:
                return result
            if attempt:  # the first time something may have been compiled
                raise Failure(f"takes {seconds:.1f} s")


def leaves(result, label="result"):
    """Yield (label, array of floats) for all numbers in a result."""
    if isinstance(result, str | None):
        return
    if isinstance(result, numbers.Real | np.bool_ | np.ndarray):
        yield label, np.asarray(result, dtype=float)
    elif isinstance(result, tuple | list):
        for part in result:
            yield from leaves(part, label)
    elif dataclasses.is_dataclass(result):
        for field in dataclasses.fields(result):
            yield from leaves(getattr(result, field.name), field.name)


def check_range(name, result):
    entry = ENTRIES[name]
    profile = hasattr(result, "laplace")
    for label, values in leaves(result) if not profile else ():
        if np.isnan(values).any():
            raise Failure(f"{label} is NaN")
        if not entry.infinite and np.isinf(values).any():
            raise Failure(f"{label} is infinite")
        low, high = entry.low, entry.high
        if "probability" in label:
            low, high = 0.0, 1.0
        outside = ~((values >= low) & (values <= high))
        if outside.any():
            raise Failure(f"{label} = {float(values[outside].flat[0])!r} outside [{low}, {high}]")


def check_refusal(name, error, argument=None):
    """An error names the argument; where the value is a number, another may be named with it."""
    named = [argument] if argument else list(ENTRIES[name].parameters)
    if not any(re.search(rf"\b{word}\b", str(error)) for word in named):
        raise Failure(f"the message names none of {named}: {error}")


def check(name, arguments, argument=None, must_refuse=False):
    result = call(name, arguments)
    if isinstance(result, ValueError):
        check_refusal(name, result, argument if must_refuse else None)
    elif must_refuse:
        raise Failure(f"returns {str(result)[:80]}")
    else:
        check_range(name, result)
    return result


def report(name, calls):
    """Run the checks; fail with a list of all that went wrong."""
    wrong = []
    for description, run in calls:
        try:
            run()
        except Failure as failure:
            wrong.append(f"{name}({description}) {failure}")
    assert not wrong, "\n".join(wrong)


def shown(value):
    text = " ".join(repr(value).split()) if not isinstance(value, int) else f"{value:.3g}"[:40]
    return text[:60]


def test_every_public_function_has_its_domain():
    assert FOUND.keys() == ENTRIES.keys() & FOUND.keys(), sorted(FOUND.keys() - ENTRIES.keys())
    for name in SWEPT:
        parameters = inspect.signature(function_of(name)).parameters
        assert set(ENTRIES[name].parameters) <= set(parameters), name


def test_no_domain_is_left_of_a_function_that_is_gone():
    stale = {
        name
        for name in ENTRIES.keys() - FOUND.keys()
        if not name.endswith(".places")  # methods are listed for all profiles
    }
    assert not stale


def test_the_pages_list_every_public_module(root):
    pages = "".join(path.read_text("utf-8") for path in sorted((root / "book").glob("api*.md")))
    listed = set(re.findall(r"automodule:: (\S+)", pages))
    offering = {name.rpartition(".")[0] for name in FOUND if inspect.isroutine(FOUND[name])}
    modules = {module.__name__ for module in public_modules()}
    assert offering & modules <= listed


def accepts(domain, value):
    """Whether a value of NO_NUMBERS is one that the parameter takes."""
    if value is None:
        return domain.optional or domain.base is None
    return isinstance(domain, Flag) and isinstance(value, bool | np.bool_)


def no_numbers(domain):
    """Yield what a parameter must refuse."""
    for label, value in NO_NUMBERS.items():
        if accepts(domain, value):
            continue
        if label == "10**400" and getattr(domain, "unbounded", False):
            continue
        yield label, value
    if isinstance(domain, Thing | Flag) and not getattr(domain, "law", False):
        yield "1.5", 1.5
        if not getattr(domain, "sequence", False):
            yield "an array", np.array([1.0, 2.0])
    if isinstance(domain, Count):
        yield "a float", 2.0
        yield "a Fraction", fractions.Fraction(2)
        yield "an array", np.array([1, 2])
    if isinstance(domain, Real) and not domain.arrays:
        yield "an array", np.array([0.5, 0.6])
        yield "an empty list", []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SWEPT)
def test_what_is_no_number_is_refused_by_name(name):
    base = base_of(name)
    report(
        name,
        [
            (
                f"{argument} = {label}",
                functools.partial(check, name, base | {argument: value}, argument, True),
            )
            for argument, domain in ENTRIES[name].parameters.items()
            for label, value in no_numbers(domain)
        ],
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SWEPT)
def test_extreme_numbers_give_a_value_or_a_named_error(name):
    base = base_of(name)
    report(
        name,
        [
            (
                f"{argument} = {shown(value)}",
                functools.partial(check, name, base | {argument: value}, argument),
            )
            for argument, domain in ENTRIES[name].parameters.items()
            if isinstance(domain, Real | Count)
            for value in NUMBERS
            if not domain.high < value <= getattr(domain, "costly", 0)
        ],
    )


def check_same(name, arguments, expected, shape=()):
    result = check(name, arguments)
    if isinstance(result, ValueError):
        raise Failure(f"is refused: {result}")
    for (label, values), (_, one) in zip(leaves(result), leaves(expected), strict=True):
        if shape and values.shape[: len(shape)] != shape and values.shape[-len(shape) :] != shape:
            raise Failure(f"{label} has the shape {values.shape}")
        near = np.isclose(values, one, rtol=1e-12, atol=1e-300) | (values == one)
        if values.size and not near.all():
            raise Failure(f"{label} is {values}, not {one}")


def check_shapes(name, arguments, pair):
    result = call(name, arguments)
    if not isinstance(result, ValueError):
        raise Failure(f"returns {result}")
    for argument in pair:
        check_refusal(name, result, argument)


def forms(domain):
    """Yield (label, value, shape) for the same number in other clothes."""
    if isinstance(domain, Count):
        yield "NumPy's integer", np.int32(domain.base), ()
        yield "0-d", np.array(domain.base), ()
        return
    yield "a Fraction", fractions.Fraction(domain.base), ()
    yield "a Decimal", decimal.Decimal(domain.base), ()
    yield "longdouble", np.longdouble(domain.base), ()
    yield "0-d", np.array(domain.base), ()
    if domain.arrays:
        fixed = np.full(3, domain.base)
        fixed.flags.writeable = False
        yield "an empty array", np.zeros(0), (0,)
        yield "a list", [domain.base], (1,)
        yield "read-only", fixed, (3,)
        yield "broadcast", np.broadcast_to(domain.base, (2, 3)), (2, 3)
        yield "non-contiguous", np.full((3, 4), domain.base).T[::2], (2, 3)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SWEPT)
def test_the_same_number_in_any_form_gives_the_same_value(name):
    parameters = ENTRIES[name].parameters
    base = base_of(name)
    expected = check(name, base)
    calls = [
        (
            f"{argument} {label}",
            functools.partial(check_same, name, base | {argument: value}, expected, shape),
        )
        for argument, domain in parameters.items()
        if isinstance(domain, Real | Count)
        for label, value, shape in forms(domain)
    ]
    arrays = [
        key for key, domain in parameters.items() if isinstance(domain, Real) and domain.arrays
    ]
    calls += [
        (
            f"{first}, {second} of shapes (2,), (3,)",
            functools.partial(
                check_shapes,
                name,
                base | {first: np.full(2, base[first]), second: np.full(3, base[second])},
                (first, second),
            ),
        )
        for first, second in itertools.pairwise(arrays)
    ]
    report(name, calls)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SWEPT)
def test_random_arguments_from_the_domain_give_values_in_range(name):
    entry = ENTRIES[name]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    refused = []

    def one(arguments):
        result = check(name, arguments)
        if isinstance(result, ValueError):
            refused.append(str(result))

    calls = []
    for _ in range(entry.draws):
        arguments = {key: domain.draw(rng) for key, domain in entry.parameters.items()}
        label = ", ".join(f"{key}={shown(value)}" for key, value in arguments.items())
        calls.append((label, functools.partial(one, arguments)))
    report(name, calls)
    assert len(refused) <= entry.refused * entry.draws, refused
