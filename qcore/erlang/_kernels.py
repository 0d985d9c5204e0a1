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

from qcore._numerics.compiled import njit

_compiled = njit(error_model="numpy")

# Servers and loads beyond this are refused, so that no intermediate result overflows.
LARGEST = 1e18
# Positive abandonment rates below this are refused for the same reason.
SMALLEST_RATE = 1e-280
# Below, the recursion in the servers is short; from here on, the expansions in 1/s are exact.
_FEW_SERVERS = 20.0
# Ratios |load/servers − 1| for which Temme's series in η converges quickly.
_UNIFORM_RANGE = 0.4
# Poisson deviance a − s + s ln(s/a) beyond which one double is not enough for the exponent.
_LARGE_DEVIANCE = 8.0
_LN2_HIGH = math.log(2.0)
_LN2_LOW = 2.319046813846299558e-17
_THIRD_LOW = 1.850371707708594e-17
_SQRT_2PI = math.sqrt(2.0 * math.pi)
# The logarithm of odds that are nothing beside any target's.
_LOG_NONE = -1e4
# Twice ten times the relative error of the odds: what they cannot tell apart.
_TIE = 2e-13


def temme_series(orders, terms):
    """Return Temme's coefficients d[n][k] and the Stirling coefficients g[k], k < orders, exactly.

    c_k(η) = Σ_n d[n, k] ηⁿ and Γ(s + 1)/(√(2πs) sˢ e⁻ˢ) ~ Σ_k g[k] s⁻ᵏ (DLMF 8.12.9–8.12.12).
    All follow from the series μ = Σ α_n ηⁿ of η²/2 = μ − ln(1 + μ), that is μ dμ/dη = η(1 + μ).
    """
    length = terms + 2 * orders
    alpha = [Fraction(0), Fraction(1)]
    for n in range(2, length + 2):
        square = sum((alpha[i] * alpha[n + 1 - i] for i in range(2, n)), start=Fraction(0))
        alpha.append(alpha[n - 1] / (n + 1) - square / 2)
    stirling = [math.prod(range(1, 2 * k + 2, 2)) * alpha[2 * k + 1] for k in range(orders)]
    first = [n * alpha[n] for n in range(2, length + 2)]
    first[0] -= 1
    rows = [first]
    for k in range(1, orders):
        above = rows[-1]
        rows.append(
            [
                (n + 2) * above[n + 2] + (-1) ** k * stirling[k] * first[n]
                for n in range(len(above) - 2)
            ]
        )
    return [[row[n] for row in rows] for n in range(terms)], stirling


def _mills_series(steps, terms, per_unit):
    """Return the Taylor coefficients of Mills' ratio m(x) at the points x = i/per_unit.

    m(x) = e^(x²/2) ∫ₓ^∞ e^(−t²/2) dt has m′ = x m − 1, hence
    (n + 1) m[n + 1] = x m[n] + m[n − 1] for its coefficients beyond the first two.
    """
    table = np.empty((steps, terms))
    for i in range(steps):
        x = i / per_unit
        root = x / math.sqrt(2.0)
        square = root * root
        rounding = float(Fraction(root) ** 2 - Fraction(square))
        erfcx = math.exp(square) * (1.0 + rounding) * math.erfc(root)
        row = table[i]
        row[0] = math.sqrt(math.pi / 2) * erfcx
        row[1] = x * row[0] - 1.0
        for n in range(1, terms - 1):
            row[n + 1] = (x * row[n] + row[n - 1]) / (n + 1)
    return table


def _log_gamma_series(terms):
    """Return (−1)^k (ζ(k) − 1)/k for k = 2, 3, …: ln Γ(1 + s) = (1 − γ)s − ln(1 + s) + Σ … sᵏ."""
    coefficients = []
    for k in range(2, terms + 2):
        # Euler–Maclaurin from n = 100 on.
        parts = [n**-k for n in map(float, range(2, 100))]
        parts += [100.0 ** (1 - k) / (k - 1), 100.0**-k / 2, k * 100.0 ** (-k - 1) / 12]
        parts.append(-k * (k + 1) * (k + 2) * 100.0 ** (-k - 3) / 720)
        coefficients.append((-1) ** k * math.fsum(parts) / k)
    return np.array(coefficients)


# Coefficients of (artanh r − r)/r³ in r².
_ATANH = 1.0 / np.arange(3.0, 39.0, 2.0)
_ATANH_MOST = _ATANH[:8].copy()
_TEMME, _STIRLING = (np.array(part, dtype=float) for part in temme_series(orders=10, terms=20))
_LOG_GAMMA = _log_gamma_series(28)
_ONE_LESS_GAMMA = 0.42278433509846714  # 1 − γ, Euler's constant
# Fewer terms suffice for many servers and loads near them.
_TEMME_SOME, _STIRLING_SOME = _TEMME[:18, :7].copy(), _STIRLING[:8].copy()
_TEMME_MANY, _STIRLING_MANY = _TEMME[:12, :5].copy(), _STIRLING[:6].copy()
_TEMME_MOST, _STIRLING_MOST = _TEMME[:8, :3].copy(), _STIRLING[:4].copy()
_MILLS_PER_UNIT = 8.0
_MILLS_END = 8.5
_MILLS = _mills_series(int(_MILLS_END * _MILLS_PER_UNIT) + 1, 14, _MILLS_PER_UNIT)


@_compiled
def _two_sum(x, y):
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


@_compiled
def _two_product(x, y):
    product = x * y
    scaled = 134217729.0 * x
    x_high = scaled - (scaled - x)
    x_low = x - x_high
    scaled = 134217729.0 * y
    y_high = scaled - (scaled - y)
    y_low = y - y_high
    return product, ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low


@_compiled
def _exponential(x):
    """Return eˣ, infinite where it overflows: Python's own, when Numba is off, would raise."""
    return math.exp(x) if x < 709.78 else math.inf


@_compiled
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


@_compiled
def _deviance(servers, load):
    """a − s + s ln(s/a) as a sum of two doubles: minus the exponent of the Poisson probability."""
    shift = math.floor(math.log2(servers) - math.log2(load) + 0.5)
    near = math.ldexp(load, shift)
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


@_compiled
def _stirling_log(servers):
    """ln[Γ(s + 1) / (√(2πs) sˢ e⁻ˢ)] for s ≥ 20."""
    x = 1.0 / (servers * servers)
    return (1 / 12 - x * (1 / 360 - x * (1 / 1260 - x * (1 / 1680 - x / 1188)))) / servers


@_compiled
def log_stirling_factor(size):
    """ln[Γ(b + 1)/(bᵇ e⁻ᵇ)] for any size b > 0."""
    if size < _FEW_SERVERS:
        return math.lgamma(size + 1.0) - size * math.log(size) + size
    return _stirling_log(size) + 0.5 * math.log(2.0 * math.pi * size)


@_compiled
def _polynomial(coefficients, x):
    """Σ_k coefficients[k] xᵏ, of even length: even and odd powers apart, which is quicker."""
    square = x * x
    even = 0.0
    odd = 0.0
    for k in range(coefficients.size // 2 - 1, -1, -1):
        even = even * square + coefficients[2 * k]
        odd = odd * square + coefficients[2 * k + 1]
    return even + x * odd


@_compiled
def _double_series(coefficients, x, y):
    """Σ_n yⁿ Σ_k coefficients[n, k] xᵏ, of an even number of rows."""
    square = y * y
    even = 0.0
    odd = 0.0
    for n in range(coefficients.shape[0] // 2 - 1, -1, -1):
        even_row = 0.0
        odd_row = 0.0
        for k in range(coefficients.shape[1] - 1, -1, -1):
            even_row = even_row * x + coefficients[2 * n, k]
            odd_row = odd_row * x + coefficients[2 * n + 1, k]
        even = even * square + even_row
        odd = odd * square + odd_row
    return even + y * odd


@_compiled
def _deviance_double(servers, load):
    """a − s + s ln(s/a) in one double, for a/s between 1/2 and 2; see `_deviance_near`."""
    difference = load - servers
    ratio = difference / (load + servers)
    square = ratio * ratio
    tail = _polynomial(_ATANH_MOST if square < 0.0036 else _ATANH, square)
    return ratio * (difference - 2.0 * servers * square * tail)


@_compiled
def _uniform_parts(size, deviance, above):
    """Return √s m(x), Σ c_k(η) s⁻ᵏ and Γ*(s) of Temme's expansion, s = size.

    x = |η|√s, x²/2 is the deviance, m is Mills' ratio, and η > 0 if the load is above the size.
    """
    root = math.sqrt(size)
    inverse_root = 1.0 / root
    inverse = inverse_root * inverse_root
    x = math.sqrt(2.0 * deviance)
    eta = x * inverse_root
    if not above:
        eta = -eta
    if size > 1e5 and abs(eta) < 0.02:
        temme = _double_series(_TEMME_MOST, inverse, eta)
        stirling = _polynomial(_STIRLING_MOST, inverse)
    elif size > 1e3 and abs(eta) < 0.2:
        temme = _double_series(_TEMME_MANY, inverse, eta)
        stirling = _polynomial(_STIRLING_MANY, inverse)
    elif size > 80.0:
        temme = _double_series(_TEMME_SOME, inverse, eta)
        stirling = _polynomial(_STIRLING_SOME, inverse)
    else:
        temme = _double_series(_TEMME, inverse, eta)
        stirling = _polynomial(_STIRLING, inverse)
    mills = 0.0
    if x < _MILLS_END:
        nearest = int(x * _MILLS_PER_UNIT + 0.5)
        mills = root * _polynomial(_MILLS[nearest], x - nearest / _MILLS_PER_UNIT)
    return mills, temme, stirling


@_compiled
def _inverse_uniform(servers, load):
    """1/B by Temme's uniform expansion, for s ≥ 20 and load near servers.

    1/B = 1 + Γ*(s) [√s m(η√s) + Σ c_k(η) s⁻ᵏ], where m(−x) = √(2π) e^(x²/2) − m(x).
    """
    deviance = _deviance_double(servers, load)
    low = 0.0
    if deviance > _LARGE_DEVIANCE and load < servers:
        deviance, low = _deviance_near(servers, load)
    mills, temme, stirling = _uniform_parts(servers, deviance, load > servers)
    if load < servers:
        mills = math.sqrt(servers) * _SQRT_2PI * (math.exp(deviance) * (1.0 + low)) - mills
    return 1.0 + stirling * (mills + temme)


@_compiled
def _inverse_fraction(servers, load):
    """1/B = a/(a − s + 1s/(a − s + 2 + 2(s − 1)/(a − s + 4 + …))) (DLMF 8.9.2), for a > s.

    Numerators and denominators of the convergents by their recurrence, in units of the load;
    their terms are positive as long as k ≤ s, so nothing cancels.
    """
    scale = 1.0 / load
    step = 2.0 * scale
    partial = (load - servers) * scale
    top, top_before = 1.0, 0.0
    bottom, bottom_before = partial, 1.0
    change = 1.0
    k = 0.0
    while abs(change) > 1e-17 * abs(bottom * top_before) or k < 2.0:
        k += 1.0
        numerator = (k * scale) * ((servers + 1.0 - k) * scale)
        if numerator == 0.0:
            break
        partial += step
        change *= numerator
        top, top_before = partial * top + numerator * top_before, top
        bottom, bottom_before = partial * bottom + numerator * bottom_before, bottom
    return top / bottom


@_compiled
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


@_compiled
def _inverse_recursion(servers, load):
    """1/B upwards from the fractional part f of the servers: x(k + 1) = 1 + x(k) (k + 1)/a."""
    index = servers - math.floor(servers)
    if index == 0.0:
        value = 1.0
    elif load < 2.0:
        power = load**-index if index * math.log(load) > -709.0 else math.inf
        value = math.gamma(index + 1.0) * math.exp(load) * power - _loss_series(index, load)
    else:
        value = _inverse_fraction(index, load)
    for _ in range(int(servers)):
        index += 1.0
        value = 1.0 + value * (index / load)
    return value


@_compiled
def _rough_deviance(servers, load):
    return load - servers + servers * math.log(servers / load)


@_compiled
def _inverse_light(servers, load):
    """1/B = Γ(s + 1) e^a a^(−s) − Σ a^m/((s + 1) … (s + m)), for s ≥ 20 and a well below s."""
    if _rough_deviance(servers, load) > 760.0:
        return math.inf
    high, low = _deviance(servers, load)
    peak = (
        math.exp(_stirling_log(servers))
        * math.sqrt(2.0 * math.pi * servers)
        * _exponential(high)
        * (1.0 + low)
    )
    return peak - _loss_series(servers, load)


@_compiled
def inverse_erlang_b(servers, load):
    """1/B(s, a); infinite where B is below 5.6e-309."""
    if not (0.0 <= servers <= LARGEST and 0.0 <= load <= LARGEST):
        return math.nan
    if servers == 0.0:
        return 1.0
    if load == 0.0:
        return math.inf
    excess = load - servers
    if servers < _FEW_SERVERS:
        inverse = _inverse_recursion(servers, load)
    elif excess > _UNIFORM_RANGE * servers or (excess > 0.0 and excess * excess > 36.0 * load):
        inverse = _inverse_fraction(servers, load)
    elif excess < -_UNIFORM_RANGE * servers:
        inverse = _inverse_light(servers, load)
    else:
        inverse = _inverse_uniform(servers, load)
    return max(1.0, inverse)


@_compiled
def inverse_excess(servers, load):
    """1/B − 1 = s ∫ e^(−au) (1 + u)^(s−1) du, by parts: (s/a)/B(s − 1, a) for s ≥ 1.

    For fewer servers s eᵃ a⁻ˢ Γ(s, a), by its continued fraction or, for a < 5/4,

        eᵃ [Γ(s + 1) a⁻ˢ − 1 − s Σ_{n≥1} (−a)ⁿ/(n! (s + n))].
    """
    if servers >= 1.0:
        return servers / load * inverse_erlang_b(servers - 1.0, load)
    if load >= 1.25:
        return servers / load * _inverse_fraction(servers - 1.0, load)
    log_gamma = math.lgamma(1.0 + servers)
    if servers < 0.5:
        log_gamma = servers * _ONE_LESS_GAMMA - math.log1p(servers)
        log_gamma += servers * servers * _polynomial(_LOG_GAMMA, servers)
    exponent = log_gamma - servers * math.log(load)
    first = math.expm1(exponent) if exponent < 1.0 else _exponential(exponent) - 1.0
    term = 1.0
    total = 0.0
    n = 0.0
    while abs(term) > 1e-18:
        n += 1.0
        term *= -load / n
        total += term / (servers + n)
    return math.exp(load) * (first - servers * total)


@_compiled
def _log_inverse_beyond_floats(servers, load):
    """−ln B where B underflows: the Poisson probability alone, as the queue is hardly ever full."""
    if servers < _FEW_SERVERS:
        return math.lgamma(servers + 1.0) + load - servers * math.log(load)
    high, low = _deviance(servers, load)
    return high + (low + _stirling_log(servers) + 0.5 * math.log(2.0 * math.pi * servers))


@_compiled
def log_erlang_b(servers, load):
    """ln B(s, a), where B underflows as well; −∞ for a = 0 < s."""
    inverse = inverse_erlang_b(servers, load)
    if math.isnan(inverse) or servers == 0.0:
        return inverse - 1.0
    if load == 0.0:
        return -math.inf
    if inverse > 1e300:
        return -_log_inverse_beyond_floats(servers, load)
    return -math.log(inverse) if inverse > 2.0 else 0.0 - math.log1p(inverse_excess(servers, load))


@_compiled
def erlang_b(servers, load):
    """B(s, a), with gradual underflow to 0."""
    inverse = inverse_erlang_b(servers, load)
    if not inverse > 1e300 or load == 0.0:
        return 1.0 / inverse
    if servers >= _FEW_SERVERS and _rough_deviance(servers, load) > 760.0:
        return 0.0
    return math.exp(-_log_inverse_beyond_floats(servers, load))


@_compiled
def erlang_c(servers, load):
    """C(s, a) = s/(a + (s − a)/B), all terms positive; not a number for a ≥ s."""
    if not load < servers:
        return math.nan
    inverse = inverse_erlang_b(servers, load)
    if inverse <= 1e300 or load == 0.0:
        return min(1.0, servers / (load + (servers - load) * inverse))
    return erlang_b(servers, load) * (servers / (servers - load))


@_compiled
def log_erlang_c(servers, load):
    """ln C(s, a) = −ln[1 + (1 − a/s)(1/B − 1)]; not a number for a ≥ s, −∞ for a = 0."""
    if not (0.0 <= load < servers <= LARGEST):
        return math.nan
    if load == 0.0:
        return -math.inf
    excess = inverse_excess(servers, load)
    if excess > 1e300:
        spare = math.log((servers - load) / servers)
        return -(_log_inverse_beyond_floats(servers, load) + spare)
    return 0.0 - math.log1p((servers - load) / servers * excess)


@_compiled
def _queue_series(size, load):
    """Σ t_m and Σ m t_m / c over m ≥ 1, where t_m = c^m/((b + 1) … (b + m))."""
    term = 1.0 / (size + 1.0)
    weighted = term
    total = term
    m = 1.0
    while term * m > 1e-17 * weighted:
        m += 1.0
        term *= load / (size + m)
        total += term
        weighted += m * term
    return total * load, weighted


@_compiled
def _mean_positive_queue(servers, load, rate):
    """Mean of the queue where it is positive, for a < s: all terms positive.

    It is 1 + c/(b − c + 2 + 2c/(b − c + 3 + 3c/(b − c + 4 + …))) with b = s/θ and c = a/θ, from
    the fraction for the confluent function M(1, b + 1, c) (DLMF 13.5 and 8.9).
    """
    spare = servers - load
    unit = rate / spare
    step = unit * (load / spare)
    partial = 1.0 + unit
    top, top_before = 0.0, 1.0
    bottom, bottom_before = 1.0, 0.0
    numerator = 1.0
    change = 1.0
    k = 0.0
    while abs(change) > 1e-17 * bottom * top or k < 2.0:
        k += 1.0
        partial += unit
        top, top_before = partial * top + numerator * top_before, top
        bottom, bottom_before = partial * bottom + numerator * bottom_before, bottom
        numerator = (k + 1.0) * step
        change *= numerator
        if numerator == 0.0:
            break
    return 1.0 + (load / spare) * (top / bottom)


@_compiled
def positive_queue_sums(servers, load, rate):
    """Return F, G and δ, the last zero unless G is too small to be trusted by itself.

    With b = s/θ and c = a/θ, F = Σ t_m over m ≥ 1 for t_m = c^m/((b + 1) … (b + m)),
    G = Σ m t_m / c = 1 + (1 − s/a) F, and δ = Σ m t_m / F.
    """
    size = servers / rate
    scaled = load / rate
    if size < _FEW_SERVERS:
        if scaled < 60.0:
            total, weighted = _queue_series(size, scaled)
            return total, weighted, 0.0
        exponent = scaled - size * math.log(scaled) + math.lgamma(size + 1.0)
        if exponent > 700.0:
            return math.inf, math.inf, 0.0
        total = math.exp(exponent) - inverse_erlang_b(size, scaled)
    elif load < servers and (
        load < (1.0 - _UNIFORM_RANGE) * servers
        or (servers - load) > 2.0 * math.sqrt(servers * rate)
    ):
        mean = _mean_positive_queue(servers, load, rate)
        return load / (servers - load + rate * mean), 0.0, mean
    elif load > (1.0 + _UNIFORM_RANGE) * servers:
        deviance = (load - servers - servers * math.log(load / servers)) / rate
        if deviance > 700.0:
            return math.inf, math.inf, 0.0
        peak = math.exp(_stirling_log(size) + deviance) * (math.sqrt(size) * _SQRT_2PI)
        total = peak - inverse_erlang_b(size, scaled)
    else:
        deviance = _deviance_double(servers, load) / rate
        if deviance > 700.0:
            return math.inf, math.inf, 0.0
        mills, temme, stirling = _uniform_parts(size, deviance, load > servers)
        if load > servers:
            mills = math.sqrt(size) * _SQRT_2PI * math.exp(deviance) - mills
        total = stirling * (mills - temme) - 1.0
    return total, 1.0 + (load - servers) / load * total, 0.0


@_compiled
def erlang_a(servers, load, rate):
    """Return delay probability, abandonment probability and mean queue of M/M/s+M.

    With 1/B of the loss system they are (1 + F)/(1/B + F), G/(1/B + F) and a/θ times that.
    """
    nothing = (math.nan, math.nan, math.nan)
    if not (0.0 <= servers <= LARGEST and 0.0 <= load <= LARGEST and 0.0 <= rate < math.inf):
        return nothing
    if rate < SMALLEST_RATE and (rate > 0.0 or not load < servers):
        return nothing
    if load == 0.0:
        only = 1.0 if servers == 0.0 else 0.0
        return only, only, 0.0
    if rate == 0.0:
        delay = erlang_c(servers, load)
        return delay, 0.0, delay * (load / (servers - load))
    total, weighted, mean = positive_queue_sums(servers, load, rate)
    if total == math.inf:
        lost = (load - servers) / load
        return 1.0, lost, (load - servers) / rate
    inverse = inverse_erlang_b(servers, load)
    weight = 1.0 / (inverse + total) if inverse <= 1e300 else erlang_b(servers, load)
    delay = min(1.0, (1.0 + total) * weight)
    if mean > 0.0:
        queue = mean * total * weight
        return delay, min(delay, rate / load * queue), queue
    lost = min(delay, weighted * weight)
    return delay, lost, load / rate * lost


@_compiled
def erlang_a_array(servers, load, rate, delay, lost, queue):
    for i in range(servers.size):
        delay[i], lost[i], queue[i] = erlang_a(servers[i], load[i], rate[i])


@_compiled
def log_odds(servers, load, rate):
    """ln[(1 − P)/P], P the blocking probability (rate < 0) or the probability of delay.

    The odds are w = 1/B − 1 for blocking, (1 − a/s) w for delay where nobody abandons, and
    w/(1 + F) otherwise: full precision in both tails. Rising in the servers.
    """
    excess = inverse_excess(servers, load)
    log = math.log(excess) if excess > 0.0 else _LOG_NONE
    if excess > 1e300:
        log = _log_inverse_beyond_floats(servers, load)
    if rate < 0.0:
        return log
    if rate == 0.0:
        return log + math.log((servers - load) / servers) if servers > load else _LOG_NONE
    return max(log - math.log1p(positive_queue_sums(servers, load, rate)[0]), _LOG_NONE)


@_compiled
def _first_guess(load, target, rate):
    """Servers for the target by square-root staffing, with z = (s − a)/√a.

    Blocking: φ(z)/(Φ(z)√a), inverted at both ends. Delay: (1 + zΦ(z)/φ(z))⁻¹, as if nobody
    abandoned.
    """
    root = math.sqrt(load)
    if rate >= 0.0:
        odds = 1.0 / target - 1.0
        z = math.sqrt(-2.0 * math.log(target))
        square = -2.0 * math.log(target * _SQRT_2PI * z)
        return load + root * max(odds / (1.2533 + 0.7 * odds), math.sqrt(max(square, 0.0)))
    hazard = target * root
    if hazard > 0.8:
        z = 1.0 / (hazard + 1.0 / hazard) - hazard
        return max(load + root * z, 0.5 * load * (1.0 - target))
    square = max(-2.0 * math.log(hazard * _SQRT_2PI), 0.0)
    return load + root * math.sqrt(square) + square / 6.0


@_compiled
def _bracket(load, target, rate, least, wanted):
    """Return two numbers of servers around the root of ln odds − wanted, and its values there."""
    guess = _first_guess(load, target, rate)
    if not guess > least:
        guess = least + 0.01 * math.sqrt(load)
    value = log_odds(guess, load, rate) - wanted
    step = 1e-3 * math.sqrt(load) + 1e-3 * abs(guess - load)
    other, other_value = guess, value
    while value * other_value > 0.0:
        guess, value = other, other_value
        down = max(guess - step, least + 0.125 * (guess - least))
        other = guess + step if value < 0.0 else down
        if not least < other < math.inf or other == guess:
            return guess, value, guess, value
        other_value = log_odds(other, load, rate) - wanted
        step *= 4.0
    return guess, value, other, other_value


@_compiled
def _real_servers(load, target, rate):
    """Solve P(servers) = target for the odds, by Chandrupatla's method.

    rate < 0 stands for the blocking probability, otherwise P is the probability of delay.
    """
    if not (0.0 < load <= 1e15 and 1e-300 <= target < 1.0 and rate < math.inf):
        return math.nan
    least = load if rate == 0.0 else 0.0
    wanted = math.log((1.0 - target) / target)
    a, at_a, b, at_b = _bracket(load, target, rate, least, wanted)
    part = 0.5
    while at_a != 0.0 and at_b != 0.0 and abs(b - a) > 3e-16 * max(a, b):
        middle = a + part * (b - a)
        value = log_odds(middle, load, rate) - wanted
        if value * at_a > 0.0:
            c, at_c, a, at_a = a, at_a, middle, value
        else:
            c, at_c, b, at_b, a, at_a = b, at_b, a, at_a, middle, value
        part = 0.5
        x = (a - b) / (c - b)
        y = (at_a - at_b) / (at_c - at_b)
        if y * y < x and (1.0 - y) * (1.0 - y) < 1.0 - x:
            # The inverse parabola through the three points.
            part = at_a / (at_b - at_a) * at_c / (at_b - at_c)
            part += (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
        smallest = min(0.5, 2.3e-16 * max(a, b) / abs(b - a)) if a != b else 0.5
        part = min(max(part, smallest), 1.0 - smallest)
    return a if abs(at_a) < abs(at_b) else b


@_compiled
def steps_of_recursion(servers, load):
    """How far below ``servers`` the recursion has to start to forget the error of its start."""
    steps = 13.0 * math.sqrt(load) + 100.0 + max(0.0, servers - load)
    if servers < load:
        steps = min(steps, 10.0 + 50.0 / math.log(load / servers))
    return min(steps, servers)


@_compiled
def inverse_two_doubles(servers, load):
    """1/B for an integer number of servers, by its recursion in pairs of doubles."""
    index = servers - np.floor(steps_of_recursion(servers, load))
    high = inverse_erlang_b(index, load)
    low = 0.0
    while index < servers:
        index += 1.0
        top, top_low = _two_product(high, index)
        top_low += low * index
        quotient = top / load
        product, product_low = _two_product(quotient, load)
        quotient_low = ((top - product) - product_low + top_low) / load
        high, low = _two_sum(1.0, quotient)
        high, low = _two_sum(high, low + quotient_low)
    return high, low


@_compiled
def _integer_servers(load, target, rate):
    """Return the smallest integer number of servers with P ≤ target, and whether that is certain.

    Doubles decide unless the odds at an integer agree with the target's to 13 digits.
    """
    root = _real_servers(load, target, rate)
    if math.isnan(root):
        return root, 0.0
    servers = max(1.0, np.ceil(root))
    wanted = math.log((1.0 - target) / target)
    above = log_odds(servers, load, rate) - wanted
    below = log_odds(servers - 1.0, load, rate) - wanted if servers > 1.0 else -1.0
    if above > _TIE and below < -_TIE:
        return servers, 1.0
    if above < 0.0:
        return servers + 1.0, 0.0
    return (servers - 1.0 if below >= 0.0 else servers), 0.0


@_compiled
def real_servers_for_blocking(load, target):
    """Solve B(s, a) = target for s."""
    return _real_servers(load, target, -1.0)


@_compiled
def integer_servers_for_blocking(load, target):
    """Return the smallest integer s with B(s, a) ≤ target, and whether that is certain."""
    return _integer_servers(load, target, -1.0)


@_compiled
def real_servers_for_delay(load, target, rate):
    """Solve D(s, a, θ) = target for s."""
    known = rate == 0.0 or rate >= SMALLEST_RATE
    return _real_servers(load, target, rate) if known else math.nan


@_compiled
def integer_servers_for_delay(load, target, rate):
    """Return the smallest integer s with D(s, a, θ) ≤ target, and whether that is certain."""
    known = rate == 0.0 or rate >= SMALLEST_RATE
    return _integer_servers(load, target, rate) if known else (math.nan, 0.0)


@_compiled
def real_servers_for_blocking_array(load, target, result):
    for i in range(result.size):
        result[i] = real_servers_for_blocking(load[i], target[i])


@_compiled
def real_servers_for_delay_array(load, target, rate, result):
    for i in range(result.size):
        result[i] = real_servers_for_delay(load[i], target[i], rate[i])


@_compiled
def integer_servers_for_blocking_array(load, target, result, certain):
    for i in range(result.size):
        result[i], certain[i] = integer_servers_for_blocking(load[i], target[i])


@_compiled
def integer_servers_for_delay_array(load, target, rate, result, certain):
    for i in range(result.size):
        result[i], certain[i] = integer_servers_for_delay(load[i], target[i], rate[i])


@_compiled
def inverse_erlang_b_array(servers, load, result):
    for i in range(result.size):
        result[i] = inverse_erlang_b(servers[i], load[i])


@_compiled
def log_erlang_b_array(servers, load, result):
    for i in range(result.size):
        result[i] = log_erlang_b(servers[i], load[i])


@_compiled
def erlang_b_array(servers, load, result):
    for i in range(result.size):
        result[i] = erlang_b(servers[i], load[i])


@_compiled
def log_erlang_c_array(servers, load, result):
    for i in range(result.size):
        result[i] = log_erlang_c(servers[i], load[i])


@_compiled
def erlang_c_array(servers, load, result):
    for i in range(result.size):
        result[i] = erlang_c(servers[i], load[i])
