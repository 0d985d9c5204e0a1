"""Times and rates as people write them: 20s, 4min, 1.5h, 90/h, or plain numbers."""

import argparse
import math
from dataclasses import dataclass

SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True)
class Quantity:
    """A number with the unit of time it was written with, if any."""

    number: float
    unit: str | None

    @property
    def seconds(self):
        return self.number * SECONDS[self.unit]


def time(text):
    """Read a time such as 4min; without a unit it counts mean service times."""
    unit = next((one for one in sorted(SECONDS, key=len, reverse=True) if text.endswith(one)), None)
    number = _number(text.removesuffix(unit or ""), text, f"a time such as 20s ({_units()})")
    if not number >= 0:
        raise argparse.ArgumentTypeError(f"{text!r}: a time must not be negative")
    return Quantity(number, unit)


def positive_time(text):
    """Read a time that is not 0."""
    read = time(text)
    if read.number == 0:
        raise argparse.ArgumentTypeError(f"{text!r}: must be longer than no time")
    return read


def rate(text):
    """Read a rate such as 90/h; without a unit it counts events in a mean service time."""
    number, _, unit = text.partition("/")
    if unit and unit not in SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a rate such as 90/h ({_units()})")
    return Quantity(_number(number, text, f"a rate such as 90/h ({_units()})"), unit or None)


def number(text):
    """Read a number."""
    return _number(text, text, "a number")


def positive(text):
    """Read a number above 0."""
    found = _number(text, text, "a number above 0")
    if not found > 0:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a number above 0")
    return found


def count(text):
    """Read a whole number, 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: must be a whole number, 0 or more")
    return int(text)


def positive_count(text):
    """Read a whole number, 1 or more."""
    found = count(text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a whole number, 1 or more")
    return found


def _number(text, whole, wanted):
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise argparse.ArgumentTypeError(f"{whole!r}: must be {wanted}")
    return found


def _units():
    return ", ".join(SECONDS)


class Clock:
    """Turns quantities into multiples of the mean service time, and times back into its unit."""

    def __init__(self, service):
        self.service = service or Quantity(1.0, None)

    @property
    def unit(self):
        """The unit in which times are shown."""
        return self.service.unit or "mean services"

    def in_services(self, name, quantity):
        """Return a time in mean service times."""
        if quantity.unit is None:
            return quantity.number
        return quantity.seconds / self._seconds(name, quantity)

    def per_service(self, name, quantity):
        """Return a rate in events in a mean service time."""
        if quantity.unit is None:
            return quantity.number
        return quantity.number / SECONDS[quantity.unit] * self._seconds(name, quantity)

    def shown(self, services):
        """Return a time, given in mean service times, in the unit of the mean service time."""
        return services * self.service.number

    def _seconds(self, name, quantity):
        if self.service.unit is None:
            raise ValueError(
                f"{name} has the unit {quantity.unit}: give --service with a unit too, such as "
                "--service 4min"
            )
        return self.service.seconds
