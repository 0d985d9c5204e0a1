"""Many-server queues with scaled admission control: exact stationary measures."""

from qcore.admission._custom import from_global, from_local
from qcore.admission._inverses import servers_for_rejection, servers_for_service_level
from qcore.admission._measures import (
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
from qcore.admission._waiting import AdmissionRule, Queue, from_probabilities, queue
from qcore.erlang import QueueDistribution

__all__ = [
    "Abandonment",
    "AdmissionRule",
    "FiniteBuffer",
    "ModifiedDrift",
    "NoWaiting",
    "OpenAdmission",
    "Piece",
    "PowerDecay",
    "Queue",
    "QueueDistribution",
    "ScalingProfile",
    "delay_probability",
    "from_global",
    "from_local",
    "from_probabilities",
    "is_stable",
    "queue",
    "queue_distribution",
    "rejection_probability",
    "servers_for_rejection",
    "servers_for_service_level",
    "varies_smoothly",
]
