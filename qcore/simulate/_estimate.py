"""A simulated number and how far it may be trusted."""

from dataclasses import dataclass, fields

import numpy as np


class Comparable:
    """Equality and hashing of frozen dataclasses some of whose fields are arrays."""

    def _contents(self):
        return tuple(
            (value.shape, *value.ravel().tolist()) if isinstance(value, np.ndarray) else value
            for value in (getattr(self, field.name) for field in fields(self))
        )

    def __eq__(self, other):
        if type(other) is not type(self):
            return NotImplemented
        return self._contents() == other._contents()

    def __hash__(self):
        return hash(self._contents())


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
