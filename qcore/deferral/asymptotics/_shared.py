"""What the docstrings of the asymptotics share, and the range of the load."""

from qcore._numerics.docstrings import sharing

LARGEST_BETA = 30.0

documented = sharing(
    beta="""
    beta : float
        Load :math:`\\beta = (\\lambda/\\mu - K)/\\sqrt K`, from -30 to 30.
    """,
    betas="""
    beta : array_like
        Load :math:`\\beta = (\\lambda/\\mu - K)/\\sqrt K`, from -30 to 30.
    """,
    rates="""
    arrival_rate : array_like
        Arrival rate :math:`\\lambda`, customers per unit of time, from 1e-60 to 1e60.
    service_rate : array_like
        Service rate :math:`\\mu` of one server, per unit of time, from 1e-60 to 1e60.
    """,
    one_service_rate="""
    service_rate : float, optional
        Service rate :math:`\\mu` of one server, per unit of time, from 1e-60 to 1e60.
    """,
    raises="""
    Raises
    ------
    ValueError
        If an argument is outside its range.
    """,
    source="""
    References
    ----------
    Kagrecha and Nair, arXiv 1910.12894 (2019), where the question is asked.
    """,
)
