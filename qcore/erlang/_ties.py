"""Whether so many servers meet a target, to 50 digits: for the ties that doubles cannot tell.

1/B comes from its recursion in the servers, in pairs of doubles, where that is short. Otherwise
loads are so large that Temme's uniform expansion in decimal arithmetic is exact to 30 digits.
"""

import functools
from decimal import Decimal, localcontext

from qcore.erlang import _kernels

_DIGITS = 60
_LONGEST_RECURSION = 1e5
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")
_MILLS_SERIES_END = 10
_MILLS_FRACTIONS = 200


def fewest_servers(load, target, rate, guess):
    """Return the smallest integer number of servers with P ≤ target, from a guess close to it.

    rate < 0 stands for the blocking probability, 0 for the probability of delay.
    """
    with localcontext() as context:
        context.prec = _DIGITS
        servers = max(1, int(guess))
        while not _meets(servers, load, target, rate):
            servers += 1
        while servers > 1 and _meets(servers - 1, load, target, rate):
            servers -= 1
    return servers


def _meets(servers, load, target, rate):
    """Whether target/B ≥ 1, or target (a + (s − a)/B) ≥ s."""
    if rate == 0.0 and servers <= load:
        return False
    inverse = _inverse_erlang_b(servers, load)
    least = Decimal(1)
    if rate == 0.0:
        least = Decimal(servers)
        inverse = Decimal(load) + (servers - Decimal(load)) * inverse
    return Decimal(target) * inverse >= least * (1 - Decimal("1e-28"))


def _inverse_erlang_b(servers, load):
    if _kernels.steps_of_recursion(float(servers), load) <= _LONGEST_RECURSION:
        high, low = _kernels.inverse_two_doubles(float(servers), load)
        return Decimal(high) + Decimal(low)
    size, load = Decimal(servers), Decimal(load)
    deviance = max(Decimal(0), load - size + size * (size / load).ln())
    x = (2 * deviance).sqrt()
    temme, stirling = _coefficients()
    eta = x / size.sqrt() if load > size else -x / size.sqrt()
    uniform = _polynomial([_polynomial(row, 1 / size) for row in temme], eta)
    mills = _mills(x)
    if load < size:
        mills = (2 * _PI).sqrt() * deviance.exp() - mills
    return 1 + _polynomial(stirling, 1 / size) * (size.sqrt() * mills + uniform)


def _polynomial(coefficients, x):
    return functools.reduce(lambda value, one: value * x + one, reversed(coefficients))


def _mills(x):
    """Return e^(x²/2) ∫ₓ^∞ e^(−t²/2) dt for x ≥ 0, by its series or continued fraction."""
    if x > _MILLS_SERIES_END:
        rest = x
        for k in range(_MILLS_FRACTIONS, 0, -1):
            rest = x + k / rest
        return 1 / rest
    term = total = x
    k = 1
    while term > total * Decimal(10) ** -_DIGITS:
        k += 2
        term *= x * x / k
        total += term
    return (_PI / 2).sqrt() * (x * x / 2).exp() - total


@functools.cache
def _coefficients():
    temme, stirling = _kernels.temme_series(orders=6, terms=14)
    with localcontext() as context:
        context.prec = _DIGITS
        decimal = [[_decimal(number) for number in row] for row in temme]
        return decimal, [_decimal(number) for number in stirling]


def _decimal(fraction):
    return Decimal(fraction.numerator) / Decimal(fraction.denominator)
