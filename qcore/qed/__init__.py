"""Delay, rejection and waits in the QED regime, to any order in 1/√servers.

With s servers of rate 1 and the load s − γ√s, probabilities and mean waits are asymptotic series in
ε = 1/√s whose coefficients depend on γ and on the scaling profile alone. They are computed once,
in decimal arithmetic; an evaluation is then a polynomial in ε.
"""

from qcore.qed._expansions import (
    HIGHEST_ORDER,
    Expansion,
    delay_coefficients,
    delay_expansion,
    delay_probability,
    mean_wait,
    mean_wait_coefficients,
    mean_wait_expansion,
    rejection_coefficients,
    rejection_expansion,
    rejection_probability,
)
from qcore.qed._wait_tails import (
    service_level,
    service_level_coefficients,
    wait_tail,
    wait_tail_coefficients,
)

__all__ = [
    "HIGHEST_ORDER",
    "Expansion",
    "delay_coefficients",
    "delay_expansion",
    "delay_probability",
    "mean_wait",
    "mean_wait_coefficients",
    "mean_wait_expansion",
    "rejection_coefficients",
    "rejection_expansion",
    "rejection_probability",
    "service_level",
    "service_level_coefficients",
    "wait_tail",
    "wait_tail_coefficients",
]
