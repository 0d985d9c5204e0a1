"""Results that hold arrays, compared by what they hold."""

from dataclasses import fields

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
