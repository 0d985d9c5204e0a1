"""Errors that qcore raises beyond the built-in ones."""


class UnstableSystem(ValueError):
    """The system has no stationary distribution; the message gives the condition that fails."""
