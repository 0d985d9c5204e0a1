"""Many-server queues with scaled admission control: exact stationary measures."""

from qcore.admission._custom import from_global, from_local
from qcore.admission._measures import (
    QueueDistribution,
    delay_probability,
    is_stable,
    queue_distribution,
    rejection_probability,
)
from qcore.admission._profiles import (
    Abandonment,
    FiniteBuffer,
    ModifiedDrift,
    NoWaiting,
    OpenAdmission,
    Piece,
    PowerDecay,
    ScalingProfile,
)
from qcore.admission._smoothness import varies_smoothly

__all__ = [
    "Abandonment",
    "FiniteBuffer",
    "ModifiedDrift",
    "NoWaiting",
    "OpenAdmission",
    "Piece",
    "PowerDecay",
    "QueueDistribution",
    "ScalingProfile",
    "delay_probability",
    "from_global",
    "from_local",
    "is_stable",
    "queue_distribution",
    "rejection_probability",
    "varies_smoothly",
]
