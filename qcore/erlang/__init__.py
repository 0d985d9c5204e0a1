"""Erlang's formulas with real-valued servers: blocking, delay, abandonment, and staffing.

The offered load is the arrival rate over the service rate. Every probability is a combination of
positive terms built on the inverse of the Erlang B probability, so that tails are as accurate as
the middle.
"""

from qcore.erlang._distribution import QueueDistribution as QueueDistribution
from qcore.erlang._formulas import (
    ErlangAMeasures,
    erlang_a,
    erlang_b,
    erlang_c,
    inverse_erlang_b,
    log_erlang_b,
    log_erlang_c,
)
from qcore.erlang._inverses import (
    load_for_blocking,
    servers_for_abandonment,
    servers_for_mean_wait,
    servers_for_service_level,
)
from qcore.erlang._staffing import servers_for_blocking, servers_for_delay
from qcore.erlang._waiting import Queue, queue

__all__ = [
    "ErlangAMeasures",
    "Queue",
    "erlang_a",
    "erlang_b",
    "erlang_c",
    "inverse_erlang_b",
    "load_for_blocking",
    "log_erlang_b",
    "log_erlang_c",
    "queue",
    "servers_for_abandonment",
    "servers_for_blocking",
    "servers_for_delay",
    "servers_for_mean_wait",
    "servers_for_service_level",
]
