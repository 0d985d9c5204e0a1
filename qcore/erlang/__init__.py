"""Erlang's formulas with real-valued servers: blocking, delay, abandonment, and staffing.

The offered load is the arrival rate over the service rate. Every probability is a combination of
positive terms built on the inverse of the Erlang B probability, so that tails are as accurate as
the middle.
"""

from qcore.erlang._formulas import (
    ErlangAMeasures,
    erlang_a,
    erlang_b,
    erlang_c,
    inverse_erlang_b,
    log_erlang_b,
    log_erlang_c,
)
from qcore.erlang._staffing import servers_for_blocking, servers_for_delay

__all__ = [
    "ErlangAMeasures",
    "erlang_a",
    "erlang_b",
    "erlang_c",
    "inverse_erlang_b",
    "log_erlang_b",
    "log_erlang_c",
    "servers_for_blocking",
    "servers_for_delay",
]
