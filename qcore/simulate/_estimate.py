"""A simulated number and how far it may be trusted."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """A long-run average found by simulation.

    Attributes
    ----------
    value : float
        The point estimate.
    standard_error : float
        Its standard error, of the same unit.
    """

    value: float
    standard_error: float
