"""A simulated number and how far it may be trusted."""

from dataclasses import dataclass

import numpy as np

from qcore._numerics.comparable import Comparable


@dataclass(frozen=True, eq=False)
class Estimate(Comparable):
    """A long-run average found by simulation.

    Attributes
    ----------
    value : float or ndarray
        The point estimate.
    standard_error : float or ndarray
        Its standard error, of the same unit and shape.
    """

    value: float | np.ndarray
    standard_error: float | np.ndarray
