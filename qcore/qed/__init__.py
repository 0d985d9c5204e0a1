"""Delay and rejection probabilities in the QED regime, to any order in 1/√servers.

With s servers of rate 1 and the load s − γ√s, both probabilities are asymptotic series in
ε = 1/√s whose coefficients depend on γ and on the scaling profile alone. They are computed once,
in decimal arithmetic; an evaluation is then a polynomial in ε.
"""

from qcore.qed._expansions import (
    HIGHEST_ORDER,
    Expansion,
    delay_coefficients,
    delay_expansion,
    delay_probability,
    rejection_coefficients,
    rejection_expansion,
    rejection_probability,
)

__all__ = [
    "HIGHEST_ORDER",
    "Expansion",
    "delay_coefficients",
    "delay_expansion",
    "delay_probability",
    "rejection_coefficients",
    "rejection_expansion",
    "rejection_probability",
]
