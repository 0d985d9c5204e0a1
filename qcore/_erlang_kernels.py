"""Compiled scalar kernels for the Erlang functions; arguments are checked by the callers.

Everything rests on the inverse of the Erlang B probability with real-valued servers ``s`` and
offered load ``a``,

    1/B(s, a) = a ∫ e^(−au) (1 + u)^s du = e^a a^(−s) Γ(s + 1, a),

computed as a sum of positive terms or nearly so. All compiled code is in this one module, because
Numba's cache notices a change of the module that it compiles and of no other.
"""

import math
from fractions import Fraction

import numpy as np
from numba import njit

# Up to here the recursion in the servers is short, and beyond it Stirling's series is exact.
_FEW_SERVERS = 20.0
# Ratios load/servers − 1 for which Temme's series in η converges quickly.
_UNIFORM_RANGE = 0.4
# Half the squared deviation η²s/2 beyond which the continued fraction is faster and more exact,
# and below which the exponent of the Poisson probability is exact enough in one double.
_LARGE_EXPONENT = 8.0
_LN2_HIGH = math.log(2.0)
_LN2_LOW = 2.319046813846299558e-17
_THIRD_LOW = 1.850371707708594e-17


def _temme_coefficients(orders, terms):
    """Return d[k, n]: Temme's c_k(η) = Σ_n d[k, n] ηⁿ (DLMF 8.12.9–8.12.12).

    With η²/2 = μ − ln(1 + μ), the series μ = Σ α_n ηⁿ follows from μ dμ/dη = η(1 + μ).
    """
    length = terms + 2 * orders + 1
    alpha = [Fraction(0), Fraction(1)]
    for n in range(2, length + 2):
        square = sum(alpha[i] * alpha[n + 1 - i] for i in range(2, n))
        alpha.append(alpha[n - 1] / (n + 1) - square / 2)
    first = [n * alpha[n] for n in range(2, length + 2)]
    first[0] -= 1
    row = first
    table = [row]
    stirling = Fraction(1)  # coefficient of s⁻ᵏ in Γ(s + 1) / (√(2πs) sˢ e⁻ˢ)
    double_factorial = 1
    for k in range(1, orders):
        double_factorial *= 2 * k + 1
        stirling = double_factorial * alpha[2 * k + 1]
        row = [(n + 2) * row[n + 2] + (-1) ** k * stirling * first[n] for n in range(len(row) - 2)]
        table.append(row)
    return np.array([[float(value) for value in row[:terms]] for row in table])


_ORDERS, _TERMS = 10, 20
_TEMME = _temme_coefficients(_ORDERS, _TERMS)


@njit(cache=True)
def _two_sum(x, y):
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


@njit(cache=True)
def _two_product(x, y):
    product = x * y
    scaled = 134217729.0 * x
    x_high = scaled - (scaled - x)
    x_low = x - x_high
    scaled = 134217729.0 * y
    y_high = scaled - (scaled - y)
    y_low = y - y_high
    return product, ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low


@njit(cache=True)
def _deviance_near(servers, load):
    """a − s + s ln(s/a) as a sum of two doubles, for a/s between 1/2 and 2.

    With r = (a − s)/(a + s) it is r (a − s − 2s r² (1/3 + r²/5 + r⁴/7 + …)).
    """
    top, top_low = _two_sum(load, -servers)
    bottom, bottom_low = _two_sum(load, servers)
    ratio = top / bottom
    product, product_low = _two_product(ratio, bottom)
    ratio_low = ((top - product) - product_low + top_low - ratio * bottom_low) / bottom
    square = ratio * ratio
    tail = 0.0
    for j in range(15, 1, -1):
        tail = square * (tail + 1.0 / (2 * j + 1))
    # The bracket: a − s less 2s r² (1/3 + tail), the small term to about 20 digits.
    sq, sq_low = _two_product(ratio, ratio)
    sq_low += 2.0 * ratio * ratio_low
    inner, inner_low = _two_sum(1.0 / 3.0, tail)
    inner_low += _THIRD_LOW
    term, term_low = _two_product(sq, inner)
    term_low += sq * inner_low + sq_low * inner
    scaled, scaled_low = _two_product(2.0 * servers, term)
    scaled_low += 2.0 * servers * term_low
    bracket, bracket_low = _two_sum(top, -scaled)
    bracket_low += top_low - scaled_low
    high, low = _two_product(ratio, bracket)
    low += ratio * bracket_low + ratio_low * bracket
    return _two_sum(high, low)


@njit(cache=True)
def _deviance(servers, load):
    """a − s + s ln(s/a) as a sum of two doubles: minus the exponent of the Poisson probability."""
    shift = 0
    near = load
    while near < 0.7 * servers:
        near *= 2.0
        shift += 1
    while near > 1.4 * servers:
        near *= 0.5
        shift -= 1
    high, low = _deviance_near(servers, near)
    if shift != 0:
        multiple, multiple_low = _two_product(servers, float(shift))
        log, log_low = _two_product(multiple, _LN2_HIGH)
        log_low += multiple * _LN2_LOW + multiple_low * _LN2_HIGH
        difference, difference_low = _two_sum(load, -near)
        total, total_low = _two_sum(log, difference)
        low += log_low + difference_low + total_low
        high, total_low = _two_sum(high, total)
        high, low = _two_sum(high, low + total_low)
    return high, low


@njit(cache=True)
def _stirling_log(servers):
    """ln[Γ(s + 1) / (√(2πs) sˢ e⁻ˢ)] for s ≥ 20."""
    x = 1.0 / (servers * servers)
    return (1 / 12 - x * (1 / 360 - x * (1 / 1260 - x * (1 / 1680 - x / 1188)))) / servers


@njit(cache=True)
def _temme_sum(servers, eta):
    """Σ_k c_k(η) s⁻ᵏ."""
    x = 1.0 / servers
    total = 0.0
    for k in range(_ORDERS - 1, -1, -1):
        row = 0.0
        for n in range(_TERMS - 1, -1, -1):
            row = row * eta + _TEMME[k, n]
        total = total * x + row
    return total


@njit(cache=True)
def _inverse_uniform(servers, load):
    """1/B by Temme's uniform expansion, for s ≥ 20 and load near servers.

    1/B = 1 + Γ*(s) [√(2πs) e^(sη²/2) ½erfc(η√(s/2)) + Σ c_k(η) s⁻ᵏ],
    and the exponent is carried in two doubles where it is large.
    """
    high, low = _deviance(servers, load)
    root = math.sqrt(high)
    eta = math.sqrt(2.0 * high / servers)
    if load < servers:
        root = -root
        eta = -eta
    stirling = math.exp(_stirling_log(servers))
    mills = math.sqrt(2.0 * math.pi * servers) * math.exp(high) * (1.0 + low)
    return 1.0 + stirling * (mills * 0.5 * math.erfc(root) + _temme_sum(servers, eta))


@njit(cache=True)
def _inverse_fraction(servers, load):
    """1/B = a/(a − s + 1s/(a − s + 2 + 2(s − 1)/(a − s + 4 + …))) (DLMF 8.9.2), for a > s.

    Evaluated by the forward recurrence of the differences (Steed's algorithm): positive terms.
    """
    denominator = load - servers
    inverse = 1.0 / denominator
    term = inverse
    total = inverse
    for k in range(1, 5000):
        numerator = k * (servers + 1.0 - k)
        if numerator == 0.0:
            break
        denominator += 2.0
        ratio = 1.0 / (numerator * inverse + denominator)
        inverse = ratio
        term *= denominator * inverse - 1.0
        total += term
        if abs(term) <= 1e-17 * total:
            break
    return load * total


@njit(cache=True)
def _loss_series(servers, load):
    """Σ_{m≥1} a^m / ((s + 1) … (s + m))."""
    term = 1.0
    total = 0.0
    index = servers
    while True:
        index += 1.0
        term *= load / index
        total += term
        if term <= 1e-17 * total:
            return total


@njit(cache=True)
def _inverse_recursion(servers, load):
    """1/B upwards from the fractional part f of the servers: x(k + 1) = 1 + x(k) (k + 1)/a."""
    index = servers - math.floor(servers)
    if index == 0.0:
        value = 1.0
    elif load < 2.0:
        value = math.gamma(index + 1.0) * math.exp(load) * load**-index - _loss_series(index, load)
    else:
        value = _inverse_fraction(index, load)
    for _ in range(int(servers)):
        index += 1.0
        value = 1.0 + value * (index / load)
    return value


@njit(cache=True)
def _inverse_light(servers, load):
    """1/B = Γ(s + 1) e^a a^(−s) − Σ a^m/((s + 1) … (s + m)), for s ≥ 20 and a well below s."""
    high, low = _deviance(servers, load)
    if high > 720.0:
        return math.inf
    stirling = math.exp(_stirling_log(servers))
    peak = stirling * math.sqrt(2.0 * math.pi * servers) * math.exp(high) * (1.0 + low)
    return peak - _loss_series(servers, load)


@njit(cache=True)
def inverse_erlang_b(servers, load):
    """1/B(s, a); infinite where B is below 5.6e-309."""
    if not (0.0 <= servers < math.inf and 0.0 <= load < math.inf):
        return math.nan
    if servers == 0.0:
        return 1.0
    if load == 0.0:
        return math.inf
    if servers < _FEW_SERVERS:
        return _inverse_recursion(servers, load)
    excess = load - servers
    if excess > 0.0 and (excess > _UNIFORM_RANGE * servers or excess * excess > 16.0 * load):
        return _inverse_fraction(servers, load)
    if excess < -_UNIFORM_RANGE * servers:
        return _inverse_light(servers, load)
    return _inverse_uniform(servers, load)


@njit(cache=True)
def log_erlang_b(servers, load):
    """ln B(s, a), where B underflows as well; −∞ for a = 0 < s."""
    inverse = inverse_erlang_b(servers, load)
    if not inverse > 1e300 or load == 0.0:
        return -math.log(inverse)
    if servers < _FEW_SERVERS:
        return servers * math.log(load) - load - math.lgamma(servers + 1.0)
    high, low = _deviance(servers, load)
    return -(high + (low + _stirling_log(servers) + 0.5 * math.log(2.0 * math.pi * servers)))


@njit(cache=True)
def erlang_b(servers, load):
    """B(s, a), with gradual underflow to 0."""
    inverse = inverse_erlang_b(servers, load)
    if inverse <= 1e300 or load == 0.0:
        return 1.0 / inverse
    return math.exp(log_erlang_b(servers, load))


@njit(cache=True)
def erlang_c(servers, load):
    """C(s, a) = s/(a + (s − a)/B), all terms positive; not a number for a ≥ s."""
    if not load < servers:
        return math.nan
    inverse = inverse_erlang_b(servers, load)
    if inverse <= 1e300 or load == 0.0:
        return servers / (load + (servers - load) * inverse)
    return math.exp(log_erlang_b(servers, load)) * (servers / (servers - load))


def _elementwise(kernel):
    """Return the kernel as a compiled loop over two one-dimensional arrays."""

    @njit(cache=True)
    def loop(servers, load, result):
        for i in range(result.size):
            result[i] = kernel(servers[i], load[i])

    return loop


LOOPS = {
    kernel: _elementwise(kernel) for kernel in (inverse_erlang_b, log_erlang_b, erlang_b, erlang_c)
}
