"""Numbers straight from the definitions, at the working precision of mpmath.

Nothing clever happens here: these functions are slow, and right by inspection. Notebooks use them
where a derived result is an expansion whose error has to be measured.
"""

import mpmath


def inverse_erlang_b(servers, offered_load):
    """Return 1/B for an integer number of servers: the weights of all states over that of full.

    Downwards from the full state the weights are 1, s/load, s(s-1)/load^2, ...; the sum ends where
    they fall and no longer count at the working precision.
    """
    weight = total = mpmath.mpf(1)
    for busy in range(servers, 0, -1):
        weight *= busy / mpmath.mpf(offered_load)
        total += weight
        if busy < offered_load and weight * busy < total * mpmath.eps / 16:
            break
    return total


def waiting_weights(traffic_intensity, admission):
    """Return the stationary weights of 0, 1, 2, ... waiting customers, the first being 1.

    ``admission(k)`` is the probability that a customer who finds all servers busy and ``k``
    customers waiting is admitted. The list ends where the weights, once they fall, no longer
    count at the working precision.
    """
    weights, total = [mpmath.mpf(1)], mpmath.mpf(1)
    while True:
        following = weights[-1] * traffic_intensity * admission(len(weights) - 1)
        if following == 0:
            return weights
        falling = following < weights[-1]
        ratio = following / weights[-1]
        weights.append(following)
        total += following
        if falling and following * ratio < total * (1 - ratio) * mpmath.eps / 16:
            return weights


def controlled_queue(servers, traffic_intensity, admission):
    """Return the probabilities that an arrival finds all servers busy, and that it is rejected."""
    weights = waiting_weights(traffic_intensity, admission)
    # The weights of fewer than `servers` customers add up to 1/B - 1 on the same scale.
    total = (
        inverse_erlang_b(servers, servers * traffic_intensity)
        - 1
        + mpmath.fsum(weights)
    )
    rejected = mpmath.fsum(
        weight * (1 - admission(k)) for k, weight in enumerate(weights)
    )
    return mpmath.fsum(weights) / total, rejected / total
