"""What the docstrings of the functions on the Markovian queue share."""

from qcore._numerics.docstrings import sharing

documented = sharing(
    system="""
    servers : int
        :math:`N \\ge 1`.
    arrival_rate : float
        :math:`\\lambda^N`, in all, customers per unit time; rates from 1e-150 to 1e150.
    service_rate : float
        :math:`\\mu`, of one server.
    abandonment_rate : float
        :math:`\\theta`, per waiting customer.
    """,
    costs="""
    abandonment_cost : float
        :math:`a \\ge 0`, per customer who abandons or is rejected; at most 1e150.
    utilization_cost : callable
        :math:`g_U`, non-decreasing and convex on [0, 1].
    holding_cost : float, optional
        :math:`h \\ge 0`, per unit time and waiting customer; at most 1e150. Default: 0.
    """,
    max_waiting="""
    max_waiting : int, optional
        Longest queue J of the truncated chain; an arrival beyond it is lost at the cost of an
        abandonment. Default: the quantile at 1 - 1e-17 of the Poisson law with mean
        :math:`\\lambda^N/\\theta`, which bounds the queue under every policy.
    """,
    averages="""
    Returns
    -------
    PolicyCost
    """,
    sum_raises="""
    Raises
    ------
    ValueError
        If an argument is out of its domain, or if more than 4 million terms would be summed.
    """,
    sum_notes="""
    Ratios of neighbouring probabilities, multiplied outwards from the mode: no subtraction.
    Measured relative error of each average against 50 digits: below 1e-13 for 1 to 10,000 servers
    and loads from 1e-3 to 2.4 times the servers; customers are conserved within 2e-13 at 1e9
    servers. A queue below 1e-290 per server is lost to underflow. *Cost*: some twenty standard
    deviations of the number in the system, the square root of at most :math:`p\\lambda^N/\\mu +
    p\\lambda^N/\\theta`, a call of ``utilization_cost`` for each number busy: 2 s at 1e9 servers.
    """,
)
