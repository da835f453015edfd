"""The base class of every exception."""


class GraphwrightError(Exception):
    """Base class of every exception that Graphwright raises deliberately."""
