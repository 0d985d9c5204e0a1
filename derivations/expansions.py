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
