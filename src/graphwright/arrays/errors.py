"""What can go wrong with distributed arrays. A class's docstring is its help page."""

from __future__ import annotations

from graphwright.errors import GraphwrightError


class ArrayError(GraphwrightError):
    """An array was used in a way that it does not allow."""


class InvalidAxis(ArrayError, ValueError, IndexError):
    """An axis is out of range or is named twice.

    An array of n dims has the axes -n to n - 1.
    """


class ShapeMismatch(ArrayError, ValueError):
    """Shapes do not fit together: they cannot be broadcast, joined or reshaped so.

    The message has the shapes; `expand_dims`, `reshape` and `broadcast_to` change them.
    """


class InvalidArgument(ArrayError, ValueError):
    """An argument has a value for which a function is not defined; NumPy raises ValueError."""


class NumberTooLarge(ArrayError, OverflowError):
    """A whole number of Python does not fit the dtype of the array that it is combined with.

    Cast the array first, for example `ga.astype(x, ga.int64) + 300`.
    """


class InvalidIndex(ArrayError, IndexError):
    """An index is out of bounds, has too many entries, or is of a kind that indexes nothing."""


class UnsupportedDtype(ArrayError, TypeError):
    """An array would have elements that are no numbers or truth values.

    Supported are bool, the integers of 8 to 64 bits, float16, float32, float64, complex64 and
    complex128. Convert dates and text to numbers first.
    """


class ImmutableArray(ArrayError, TypeError, ValueError):
    """An array was to be changed that cannot be: one that is broadcast, or the `out=` of NumPy.

    Change a copy of a broadcast array, `x = x.copy()`; without `out=`, functions make new arrays.
    """


class ClusterLost(ArrayError):
    """Workers were lost so often, or so many of them, that a computation could not be finished.

    Arrays that were given from here or saved by `checkpoint` are still there: connect to another
    cluster with `ga.connect`, and what is asked for is computed again from these.
    """


class FunctionFailed(ArrayError):
    """A user's function returned a block of another shape, or failed when it was tried.

    Without a dtype, it is tried on blocks of one element, to see what it makes.

    The exception itself is the cause of this one. Give `dtype=` if the function needs larger
    blocks. What a function raises later, on a worker, is raised here as it is.
    """
