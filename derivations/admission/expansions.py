"""Expansions that several notebooks share."""

import sympy


def euler_maclaurin(summand, variable, upper, step, order):
    """Return the expansion of a sum over a fine grid, up to a power of its step.

    The sum of ``summand`` at ``step``, ``2 step``, ..., ``upper`` is, to every order,

        (1/step) ∫_0^upper g + [g(upper) - g(0)] / 2
            + Σ_k B_{2k} step^(2k-1) [g^(2k-1)(upper) - g^(2k-1)(0)] / (2k)!.

    Parameters
    ----------
    summand : sympy.Expr
        g, an expression in ``variable``.
    upper : sympy.Expr
        The last point of the grid.
    order : int
        The highest power of ``step`` that is kept.
    """

    def between(expression):
        return expression.subs(variable, upper) - expression.subs(variable, 0)

    constant, varying = summand.as_independent(variable, as_Add=False)
    integral = constant * sympy.Integral(varying, (variable, 0, upper))
    result = integral / step + between(summand) / 2
    for k in range(1, (order + 1) // 2 + 1):
        weight = sympy.bernoulli(2 * k) / sympy.factorial(2 * k) * step ** (2 * k - 1)
        result += weight * between(sympy.diff(summand, variable, 2 * k - 1))
    return result


def product(left, right):
    """Return the product of two truncated power series, given as lists of coefficients.

    Coefficients are SymPy expressions or elements of one polynomial ring.
    """
    return [
        _expand(sum(left[k] * right[n - k] for k in range(n + 1)))
        for n in range(min(len(left), len(right)))
    ]


def quotient(numerator, denominator, inverse):
    """Return the quotient of two truncated power series.

    ``inverse`` is the reciprocal of the denominator's first coefficient, such as a symbol of its
    own, so that no fraction has to be expanded.
    """
    result = []
    for n, coefficient in enumerate(numerator):
        known = sum(result[k] * denominator[n - k] for k in range(n))
        result.append(_expand((coefficient - known) * inverse))
    return result


def composition(outer, inner):
    """Return the series of ``outer(inner)``; the first coefficient of ``inner`` must be 0."""
    result, power = [outer[0], *[0] * (len(inner) - 1)], [1, *[0] * (len(inner) - 1)]
    for coefficient in outer[1:]:
        power = product(power, inner)
        result = [
            total + coefficient * term
            for total, term in zip(result, power, strict=True)
        ]
    return [_expand(term) for term in result]


def _expand(term):
    # Elements of a polynomial ring are expanded by nature, and much faster to multiply.
    return sympy.expand(term) if isinstance(term, sympy.Basic) else term
