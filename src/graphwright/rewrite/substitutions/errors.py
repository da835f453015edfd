"""What can be wrong with operator properties and with files of substitutions."""

from graphwright.errors import GraphwrightError


class InvalidRule(GraphwrightError):
    """A substitution, a property or a file of them could not be read.

    Terms are written as ``conv(1, same, none, x, ewadd(y, z))``: parameters first, then tensors.
    The message names the place and what was expected. The library that comes with Graphwright is
    written by ``python -m graphwright.rewrite.substitutions``.
    """


class WrongProperty(GraphwrightError):
    """An operator property does not hold: the message shows the smallest counter-example.

    Properties are axioms of every proof, so a wrong one would prove wrong substitutions. Correct
    the equation, or state the precondition that it needs: ``when=("ungrouped(x, y)",)``.
    """
