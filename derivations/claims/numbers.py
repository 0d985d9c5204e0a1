"""Evidence from numbers: agreement with qcore, simulations, orders and rates.

NumPy, SciPy and qcore are imported where they are used, so that claims with proofs alone can be
checked where there is neither.
"""

import importlib
import math

import mpmath
import sympy

from derivations.claims.domains import domain_of, sample
from derivations.claims.evidence import Check, ClaimFailed, can_measure
from derivations.claims.records import Evidence


def agrees(
    derived, function, domain, tolerance, points=256, digits=50, name=None, where=None
):
    """Evidence that a derived expression gives the numbers of a function of qcore.

    Parameters
    ----------
    derived : sympy.Expr or callable
        The derived result; a callable is given mpmath numbers (integers for integer ranges).
    function : callable
        The function of qcore, given Python numbers in the order of ``domain``.
    domain : mapping
        Symbol (or name) to `uniform`, `logarithmic` or `integers`, at least 200 points in all.
    tolerance : float
        The largest relative difference allowed.
    digits : int
        The precision at which ``derived`` is evaluated; a second evaluation at twice that
        precision must confirm half of the digits.
    name : str, optional
        The dotted name of what ``function`` calls, where that is a lambda or a partial.
    where : callable, optional
        Keeps only the points for which it is true (a domain that is not a box).
    """
    if points < 200:
        raise ValueError(f"points = {points}: must be at least 200")
    if can_measure():
        name = _qualified_name(function, name)
    kept = [point for point in sample(domain, points) if where is None or where(*point)]
    if len(kept) < 200:
        raise ValueError(
            f"only {len(kept)} points satisfy the condition: at least 200 are needed"
        )
    evaluate = (
        derived
        if not isinstance(derived, sympy.Basic)
        else sympy.lambdify(list(domain), derived, modules="mpmath")
    )

    def run():
        worst, worst_point = 0.0, kept[0]
        for point in kept:
            reference = _reference(evaluate, point, digits)
            error = _relative_error(function(*point), reference)
            if not error <= worst:
                worst, worst_point = error, point
        if not worst <= tolerance:
            raise ClaimFailed(
                f"{name}{worst_point} differs from the derived value by {worst:.2g} (relative); "
                f"allowed: {tolerance:g}"
            )
        return {"largest relative difference": f"{worst:.2g}"}

    summary = (
        f"the formula, with {digits} digits, and `{name}` differ by no more than a part "
        f"{tolerance:g}, at {len(kept)} points"
    )
    evidence = Evidence(
        "agrees", summary, domain_of(domain), len(kept), f"relative {tolerance:g}"
    )
    return Check(evidence, run)


def compared(larger, smaller, what, margin=0.0, domain=None):
    """Evidence that computed numbers exceed others, one by one: observed, not proved.

    Parameters
    ----------
    larger, smaller : sequences of numbers
        Of the same length, such as values of qcore over a range of sizes.
    what : str
        What is compared and where, for the record.
    margin : float
        By which part of itself each of ``larger`` must at least exceed its partner.
    domain : mapping, optional
        Where they were computed.
    """
    pairs = list(zip(larger, smaller, strict=True))
    if not pairs:
        raise ValueError(f"{what}: there is nothing to compare")

    def run():
        least = min(
            (float((one - other) / (abs(one) or 1)), place)
            for place, (one, other) in enumerate(pairs)
        )
        if not all(one - other > margin * abs(one) for one, other in pairs):
            one, other = pairs[least[1]]
            raise ClaimFailed(
                f"{what}: {float(one):.6g} does not exceed {float(other):.6g} "
                f"by more than a part {margin:g}"
            )
        return {"least relative excess": f"{least[0]:.2g}"}

    more = f", by {100 * margin:g} % or more" if margin else ""
    summary = (
        f"{what}: computed, each of {len(pairs)} values exceeds its partner{more}"
        if len(pairs) > 1
        else f"{what}: computed, the value exceeds its partner{more}"
    )
    tolerance = f"relative margin {margin:g}" if margin else None
    return Check(
        Evidence("agrees", summary, _stated(domain), len(pairs), tolerance), run
    )


def _public_name(function):
    """Return the shortest dotted name under which ``function`` is found without private parts."""
    path = [part for part in function.__module__.split(".") if not part.startswith("_")]
    while len(path) > 1 and hasattr(
        importlib.import_module(".".join(path[:-1])), function.__qualname__
    ):
        path.pop()
    return ".".join([*path, function.__qualname__])


def _qualified_name(function, name):
    if name is None:
        name = _public_name(function)
    module, _, attribute = name.rpartition(".")
    if not name.startswith("qcore.") or not hasattr(
        importlib.import_module(module), attribute
    ):
        raise ValueError(
            f"name = {name!r}: must be the dotted name of something in qcore"
        )
    return name


def _reference(evaluate, point, digits):
    values = []
    for precision in (digits, 2 * digits):
        with mpmath.workdps(precision):
            exact = [
                value if isinstance(value, int) else mpmath.mpf(value)
                for value in point
            ]
            values.append(mpmath.mpmathify(evaluate(*exact)))
    coarse, fine = values
    with mpmath.workdps(2 * digits):
        if abs(coarse - fine) > abs(fine) * mpmath.mpf(10) ** (-digits / 2):
            raise ClaimFailed(
                f"{digits} digits are not enough to evaluate the result at {point}"
            )
    return fine


def _relative_error(value, reference):
    if reference == 0:
        return 0.0 if value == 0 else math.inf
    return float(abs(mpmath.mpmathify(value) - reference) / abs(reference))


# Simulation and rates ----------------------------------------------------------------------------


def simulated(
    expected, estimate, standard_errors=4.0, detects=0.01, name=None, domain=None
):
    """Evidence that a derived value lies within a simulation's error.

    Parameters
    ----------
    expected : number or sequence of numbers
        The derived value.
    estimate : qcore.simulate.Estimate or sequence of them
        What the simulation found.
    standard_errors : float
        How many standard errors apart the two may be.
    detects : float
        The relative error that the simulation must be long enough to notice, at most 0.01.
    name : str, optional
        What was simulated, if the sentence does not say it.
    domain : mapping, optional
        Where it was simulated.
    """
    if detects > 0.01:
        raise ValueError(f"detects = {detects}: must be at most 0.01")
    expected, estimates = _listed(expected), _listed(estimate)
    expected = [float(value) for value in expected]

    def run():
        noticed, deviation = [], []
        for value, found in zip(expected, estimates, strict=True):
            noticed.append(standard_errors * found.standard_error / abs(value))
            deviation.append((found.value - value) / found.standard_error)
            if not noticed[-1] <= detects:
                raise ClaimFailed(
                    f"the simulation notices errors of {noticed[-1]:.2g} only; "
                    f"it must notice {detects:g}: simulate longer"
                )
            if not abs(deviation[-1]) <= standard_errors:
                raise ClaimFailed(
                    f"simulated {found.value:.6g} ± {found.standard_error:.2g}, derived "
                    f"{value:.6g}: {abs(deviation[-1]):.1f} standard errors apart"
                )
        return {
            "deviations in standard errors": [f"{one:.2g}" for one in deviation],
            "smallest error noticed": f"{max(noticed):.2g}",
        }

    what = f"{name}, " if name else ""
    values = (
        "the simulated value lies"
        if len(expected) == 1
        else f"each of {len(expected)} simulated values lies"
    )
    summary = (
        f"{what}{values} within {standard_errors:g} standard errors; "
        f"an error of {100 * detects:g} % would have been noticed"
    )
    tolerance = f"{standard_errors:g} standard errors, at most {detects:g} relative"
    return Check(
        Evidence("simulated", summary, _stated(domain), len(expected), tolerance), run
    )


def simulated_order(
    larger, smaller, what, detects=None, standard_errors=4.0, domain=None
):
    """Evidence that simulated values exceed bounds or each other, one by one.

    By default each difference must be more than ``standard_errors`` of its own standard errors
    above zero. Where the true difference may be arbitrarily small that cannot be asked; give
    ``detects`` then: no difference may be that far below zero, and the simulation must be long
    enough to notice a value that is too small by the part ``detects``.

    Parameters
    ----------
    larger, smaller : sequences of numbers or of `qcore.simulate.Estimate`
        Of the same length.
    what : str
        What is compared and where, for the record.
    detects : float, optional
        At most 0.01.
    standard_errors : float
        How many standard errors count as noise; those of a pair are taken as independent, so
        that both should not come from the same random numbers.
    domain : mapping, optional
        Where they were simulated.
    """
    pairs = list(zip(larger, smaller, strict=True))
    if not pairs:
        raise ValueError(f"{what}: there is nothing to compare")
    if detects is not None and detects > 0.01:
        raise ValueError(f"detects = {detects}: must be at most 0.01")
    strictly = detects is None

    def run():
        deviations, noticed = [], []
        for pair in pairs:
            (upper, lower), error = _values_and_error(pair)
            if not error > 0:
                raise ClaimFailed(f"{what}: nothing here was simulated")
            deviations.append((upper - lower) / error)
            noticed.append(standard_errors * error / abs(lower or upper))
            if not strictly and not noticed[-1] <= detects:
                raise ClaimFailed(
                    f"{what}: the simulation notices a violation of {noticed[-1]:.2g} only; "
                    f"it must notice {detects:g}: simulate longer"
                )
            least = standard_errors if strictly else -standard_errors
            if not deviations[-1] > least:
                raise ClaimFailed(
                    f"{what}: {upper:.6g} exceeds {lower:.6g} by {deviations[-1]:.1f} standard "
                    f"errors; at least {least:g} are needed"
                )
        return {
            "least excess in standard errors": f"{min(deviations):.2g}",
            "beyond doubt": f"{sum(one > standard_errors for one in deviations)} "
            f"of {len(deviations)}",
        }

    values = "1 value" if len(pairs) == 1 else f"{len(pairs)} values"
    verdict = (
        f"each more than {standard_errors:g} standard errors above its partner"
        if strictly
        else f"none more than {standard_errors:g} standard errors below its bound; "
        f"a violation of {100 * detects:g} % would have been noticed"
    )
    tolerance = f"{standard_errors:g} standard errors"
    if not strictly:
        tolerance += f", at most {detects:g} relative"
    evidence = Evidence(
        "simulated",
        f"{what}: {values}, {verdict}",
        _stated(domain),
        len(pairs),
        tolerance,
    )
    return Check(evidence, run)


def _values_and_error(items):
    """Return the values of numbers or estimates, and the standard error of a sum of them."""
    values = [float(getattr(item, "value", item)) for item in items]
    errors = [float(getattr(item, "standard_error", 0.0)) for item in items]
    return values, math.hypot(*errors)


def fitted_slope(sizes, errors):
    """Fit ``errors`` by a power of ``sizes``; return the exponent and its standard error.

    Least squares on logarithmic scales. Where the errors are estimates, they are weighted by their
    standard errors, taken as independent; the exponent of exact errors has standard error 0.
    """
    import numpy as np

    size, value = (
        np.array(
            [
                float(mpmath.log(abs(mpmath.mpmathify(getattr(one, "value", one)))))
                for one in series
            ]
        )
        for series in (sizes, errors)
    )
    noise = np.array(
        [
            getattr(one, "standard_error", 0.0) / abs(getattr(one, "value", 1.0))
            for one in errors
        ]
    )
    if not noise.any():
        return float(np.polyfit(size, value, 1)[0]), 0.0
    weight = noise**-2.0
    size = size - np.average(size, weights=weight)
    spread = float(weight @ size**2)
    return float(weight @ (size * value)) / spread, spread**-0.5


def slope(
    sizes, errors, expected, within=0.03, name=None, standard_errors=4.0, domain=None
):
    """Evidence that ``errors`` fall like a power of ``sizes``: the slope of a log–log fit.

    The errors may be simulated (`qcore.simulate.Estimate`, independent of each other). The slope
    then has a standard error, of which ``standard_errors`` must be at most ``within``. ``domain``
    says where they were computed.
    """
    if len(sizes) < 3:
        raise ValueError(f"{len(sizes)} sizes: a slope needs at least three")
    what, expected = f"{name}: " if name else "", float(expected)
    are_simulated = any(hasattr(one, "standard_error") for one in errors)

    def run():
        found, error = fitted_slope(sizes, errors)
        noise = f" ± {error:.4f}" if are_simulated else ""
        if not standard_errors * error <= within:
            raise ClaimFailed(
                f"{what}slope {found:.4f}{noise}: its error must be at most "
                f"{within / standard_errors:.2g}: simulate longer"
            )
        if not abs(found - expected) <= within:
            raise ClaimFailed(
                f"{what}slope {found:.4f}{noise}, expected {expected:g} ± {within:g}"
            )
        return {"slope": f"{found:.4f}{noise}"}

    number = f"{len(sizes)} simulated sizes" if are_simulated else f"{len(sizes)} sizes"
    summary = (
        f"{what}on logarithmic scales a line through {number} has the slope "
        f"{expected:.4g} ± {within:g}"
    )
    return Check(
        Evidence("rate", summary, _stated(domain), len(sizes), f"± {within:g}"), run
    )


def extrapolated(sizes, values, exponents, expected, within, name=None, domain=None):
    """Evidence that ``values`` tend to ``expected``, by extrapolation.

    The last ``len(exponents) + 1`` values determine the constant ``c`` in
    ``c + sum(c_i * size**exponent_i)``, which must be within a relative distance of ``expected``.
    ``values`` may be several such series; then ``expected`` has a constant for each of them.
    ``domain`` says where they were computed.
    """
    needed = len(exponents) + 1
    if len(sizes) < needed:
        raise ValueError(
            f"{len(sizes)} sizes: {len(exponents)} exponents need {needed}"
        )
    what = f"{name}: " if name else ""
    several = _is_sequence(expected)
    constants = [float(one) for one in (expected if several else [expected])]
    every = list(values) if several else [values]
    if len(every) != len(constants):
        raise ValueError(f"{len(every)} series for {len(constants)} constants")

    def run():
        with mpmath.workdps(50):
            basis = [mpmath.mpf(0), *(mpmath.mpmathify(one) for one in exponents)]
            matrix = mpmath.matrix(
                [
                    [mpmath.mpmathify(size) ** power for power in basis]
                    for size in sizes[-needed:]
                ]
            )
            found = []
            for series in every:
                right = [mpmath.mpmathify(value) for value in series[-needed:]]
                found.append(float(mpmath.lu_solve(matrix, mpmath.matrix(right))[0]))
        for measured, constant in zip(found, constants, strict=True):
            if not abs(measured - constant) <= within * abs(constant):
                raise ClaimFailed(
                    f"{what}extrapolated to {measured:.6g}, expected {constant:.6g}"
                )
        texts = [f"{measured:.6g}" for measured in found]
        return {"constants": texts} if several else {"constant": texts[0]}

    listed = ", ".join(f"{constant:.6g}" for constant in constants)
    sizes_used = f"the last {needed} of {len(sizes)} sizes"
    summary = (
        f"{what}extrapolated from {sizes_used}, the "
        f"{'constants are' if several else 'constant is'} {listed} to within {100 * within:g} %"
    )
    points = len(sizes) * len(every)
    return Check(
        Evidence("rate", summary, _stated(domain), points, f"relative {within:g}"), run
    )


def _stated(domain):
    return None if domain is None else domain_of(domain)


def _is_sequence(item):
    return hasattr(item, "__len__") and not isinstance(item, str)


def _listed(item):
    return list(item) if _is_sequence(item) else [item]
