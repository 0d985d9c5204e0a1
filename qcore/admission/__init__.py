"""Many-server queues with scaled admission control: exact stationary measures."""

from qcore.admission._custom import from_global, from_local
from qcore.admission._profiles import (
    Abandonment,
    FiniteBuffer,
    ModifiedDrift,
    NoWaiting,
    OpenAdmission,
    PowerDecay,
    ScalingProfile,
)

__all__ = [
    "Abandonment",
    "FiniteBuffer",
    "ModifiedDrift",
    "NoWaiting",
    "OpenAdmission",
    "PowerDecay",
    "ScalingProfile",
    "from_global",
    "from_local",
]
