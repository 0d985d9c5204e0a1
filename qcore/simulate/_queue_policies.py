"""Who is admitted to the GI/GI/N+GI queue, and whether servers rest."""

from dataclasses import dataclass
from typing import ClassVar

from qcore._numerics import checks


@dataclass(frozen=True)
class NonIdling:
    """No server idles while a customer waits, and every arrival is admitted."""

    admission_probability: ClassVar[float] = 1.0
    idle_time: ClassVar[float] = 0.0


@dataclass(frozen=True)
class Thinned:
    """Admit each arrival independently with a probability; never idle while a customer waits.

    Parameters
    ----------
    admission_probability : float
        In (0, 1].
    """

    admission_probability: float
    idle_time: ClassVar[float] = 0.0

    def __post_init__(self):
        probability = checks.scalar(
            "admission_probability", self.admission_probability, above=0.0, at_most=1.0
        )
        object.__setattr__(self, "admission_probability", probability)


@dataclass(frozen=True)
class ServerIdle:
    """Admit every arrival; a server rests after each service, then takes the longest waiting.

    A server that finds nobody waiting after its rest takes the next arrival at once.

    Parameters
    ----------
    idle_time : float
        Length of the rest, >= 0, in the unit of the laws.
    """

    idle_time: float
    admission_probability: ClassVar[float] = 1.0

    def __post_init__(self):
        idle_time = checks.scalar("idle_time", self.idle_time, at_least=0.0, at_most=checks.LARGEST)
        object.__setattr__(self, "idle_time", idle_time)
