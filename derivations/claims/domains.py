"""Domains: what a sentence speaks of and what its evidence was checked for, and their comparison.

A domain maps names to what they range over: a `Range` of numbers, single `Values`, or a class in
`Words` ("every law of finite mean"). A proof ranges over every value that the assumptions on its
symbols allow (`Every`). Nothing here needs more than Python.
"""

import itertools
import json
import math
import re
from dataclasses import dataclass

# So many values from end to end stand for a range of real numbers.
ENOUGH_VALUES = 5


@dataclass(frozen=True)
class Range:
    """A range of one argument, sampled evenly on the scale that it names."""

    low: float
    high: float
    scale: str

    def at(self, fraction):
        """Return the value at a fraction in [0, 1] of the way."""
        if self.scale == "integers":
            return int(
                min(
                    self.low + math.floor(fraction * (self.high - self.low + 1)),
                    self.high,
                )
            )
        if fraction in (0.0, 1.0):
            return (self.low, self.high)[int(fraction)]
        if self.scale == "logarithmic":
            return float(self.low * (self.high / self.low) ** fraction)
        return float(self.low + fraction * (self.high - self.low))

    def covers(self, other):
        """Whether all that ``other`` holds lies in this range."""
        if isinstance(other, Values):
            return all(self._holds(item) for item in other.items)
        return (
            isinstance(other, Range)
            and self.low <= other.low
            and self.high >= other.high
            and (self.scale != "integers" or other.scale == "integers")
        )

    def _holds(self, item):
        return (
            isinstance(item, int | float)
            and self.low <= item <= self.high
            and (self.scale != "integers" or item == int(item))
        )

    def text(self, name, plain):
        """Return the range in Markdown; the name is given in LaTeX and in plain text."""
        low, high = _number(self.low), _number(self.high)
        if self.scale == "integers":
            if math.isinf(self.high):
                return rf"${name} = {low}, {_number(self.low + 1)}, \ldots$"
            return rf"${name} = {low}, \ldots, {high}$"
        if math.isinf(self.low) and math.isinf(self.high):
            return rf"${name}$ real"
        if math.isinf(self.high):
            return rf"${name} > {low}$"
        if math.isinf(self.low):
            return rf"${name} < {high}$"
        return rf"${low} \le {name} \le {high}$"

    def stored(self):
        """Return what a notebook stores."""
        return f"{self.scale} {_stored(self.low)} {_stored(self.high)}"


@dataclass(frozen=True)
class Values:
    """Single values, numbers or names."""

    items: tuple

    def covers(self, other):
        """Whether these values are all that ``other`` holds, or reach from end to end of it."""
        if isinstance(other, Values):
            return set(other.items) <= set(self.items)
        if not isinstance(other, Range) or math.isinf(other.high - other.low):
            return False
        numbers = [item for item in self.items if isinstance(item, int | float)]
        if other.scale == "integers":
            return set(range(int(other.low), int(other.high) + 1)) <= set(numbers)
        inside = {item for item in numbers if other.low <= item <= other.high}
        return len(inside) >= ENOUGH_VALUES and {other.low, other.high} <= inside

    def text(self, name, plain):
        """Return the values in Markdown."""
        if all(isinstance(item, int | float) for item in self.items):
            listed = r",\ ".join(_number(item) for item in self.items)
            return f"${name} = {listed}$"
        return f"{plain}: {', '.join(str(item) for item in self.items)}"

    def stored(self):
        """Return what a notebook stores."""
        return f"values {json.dumps(self.items, ensure_ascii=False)}"


@dataclass(frozen=True)
class Words:
    """A class in words, such as of laws or policies."""

    words: str

    def covers(self, other):
        """Whether ``other`` is the same class."""
        return self == other

    def text(self, name, plain):
        """Return the class in Markdown."""
        return f"{plain}: {self.words}"

    def stored(self):
        """Return what a notebook stores."""
        return f"words {self.words}"


@dataclass(frozen=True)
class Every:
    """All values that the assumptions on a symbol of a proof allow."""

    low: float = -math.inf
    high: float = math.inf
    integer: bool = False

    def covers(self, other):
        """Whether the proof holds for all of ``other``."""
        if isinstance(other, Words):
            return False
        scale = "integers" if self.integer else "uniform"
        return Range(self.low, self.high, scale).covers(other)

    def text(self, name, plain):
        """Return the assumptions in Markdown."""
        kind = "integer" if self.integer else "real"
        low = "" if math.isinf(self.low) else f" > {_number(self.low)}"
        high = "" if math.isinf(self.high) else f" < {_number(self.high)}"
        return f"every {kind} ${name}{low}{high}$"

    def stored(self):
        """Return what a notebook stores."""
        kind = "integer" if self.integer else "real"
        return f"every-{kind} {_stored(self.low)} {_stored(self.high)}"


@dataclass(frozen=True)
class Argument:
    """What one name of a sentence or of its evidence ranges over."""

    name: str
    values: Range | Values | Words | Every

    @property
    def tex(self):
        """The name as LaTeX: a letter, with its index, or a word."""
        stem, _, index = self.name.partition("_")
        if stem not in GREEK and len(stem) > 1 and not stem.startswith("\\"):
            return rf"\text{{{self.name}}}"
        stem = f"\\{stem}" if stem in GREEK else stem
        return f"{stem}_{{{index.strip('{}')}}}" if index else stem

    def text(self):
        """Return it in Markdown."""
        is_word = self.tex.startswith(r"\text")
        return self.values.text(self.tex, self.name if is_word else f"${self.tex}$")

    def stored(self):
        """Return what a notebook stores, on one line."""
        return f"{self.name}: {self.values.stored()}"

    @classmethod
    def read(cls, stored):
        """Return the argument that a notebook has stored."""
        name, _, values = stored.partition(": ")
        kind, _, rest = values.partition(" ")
        if kind == "words":
            return cls(name, Words(rest))
        if kind == "values":
            return cls(name, Values(tuple(json.loads(rest))))
        low, high = (_loaded(end, kind) for end in rest.split())
        if kind.startswith("every-"):
            return cls(name, Every(low, high, kind == "every-integer"))
        return cls(name, Range(low, high, kind))


def uniform(low, high):
    """A range of real numbers, sampled evenly; an end may be infinite where nothing is sampled."""
    return Range(float(low), float(high), "uniform")


def logarithmic(low, high):
    """A range of positive numbers sampled evenly in their logarithms."""
    return Range(float(low), float(high), "logarithmic")


def integers(low, high):
    """A range of integers, both ends included; the upper end may be infinite."""
    return Range(int(low), math.inf if math.isinf(high) else int(high), "integers")


def domain_of(mapping):
    """Return a mapping of names or symbols to ranges, lists of values or words as a domain.

    Names are those of the symbols, ``str(symbol)``; a single letter or the name of a Greek letter
    is shown as mathematics.
    """
    return tuple(
        Argument(str(name), _values(values)) for name, values in mapping.items()
    )


def sample(domain, points):
    """Return ``points`` low-discrepancy points of a box and all its corners, always the same ones.

    Parameters
    ----------
    domain : mapping
        Argument (in the order of the function's parameters) to its `Range`.
    points : int
        The number of points in the inside; the corners come on top.
    """
    ranges = list(domain.values())
    bases = list(itertools.islice(_primes(), len(ranges)))
    inside = (
        [_reflected(number, base) for base in bases] for number in range(1, points + 1)
    )
    corners = itertools.product((0.0, 1.0), repeat=len(ranges))
    return [
        tuple(one.at(fraction) for one, fraction in zip(ranges, point, strict=True))
        for point in itertools.chain(inside, corners)
    ]


def _primes():
    found = []
    for number in itertools.count(2):
        if all(number % prime for prime in found):
            found.append(number)
            yield number


def _reflected(number, base):
    """Return the digits of ``number`` behind the point: Halton's sequence, without SciPy."""
    fraction, place = 0.0, 1.0
    while number:
        place /= base
        number, digit = divmod(number, base)
        fraction += digit * place
    return fraction


def _values(values):
    if isinstance(values, Range | Values | Words | Every):
        return values
    if isinstance(values, str):
        return Words(values)
    try:
        return Values(tuple(_plain(item) for item in values))
    except TypeError:
        return Values((_plain(values),))


def _plain(item):
    """Return a number of any library as one of Python, anything else as text."""
    if isinstance(item, str | bool):
        return str(item)
    try:
        number = float(item)
    except (TypeError, ValueError):
        return str(item)
    return int(number) if number.is_integer() else number


GREEK = frozenset(
    re.findall(
        r"\w+",
        """
        alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma
        tau phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega
        """,
    )
)


def _number(value):
    if isinstance(value, str):
        return value
    if math.isinf(value):
        return r"\infty" if value > 0 else r"-\infty"
    text = f"{value:.15g}"
    mantissa, _, exponent = text.partition("e")
    if not exponent and value and abs(value) >= 1e5 and float(f"{value:.3g}") == value:
        mantissa, _, exponent = f"{value:.3e}".partition("e")
    if not exponent:
        return text
    mantissa = f"{float(mantissa):g}"
    power = f"10^{{{int(exponent)}}}"
    return power if mantissa == "1" else rf"{mantissa} \times {power}"


def _stored(end):
    if math.isinf(end):
        return "oo" if end > 0 else "-oo"
    return repr(end)


def _loaded(text, kind):
    if text in ("oo", "-oo"):
        return math.inf if text == "oo" else -math.inf
    return int(text) if kind == "integers" else float(text)
