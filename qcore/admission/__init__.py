"""Many-server queues with scaled admission control: exact stationary measures."""

from qcore.admission._custom import from_global, from_local, varies_smoothly
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
