"""The operators of arrays: what they compute, for the planner, and how, on NumPy arrays."""

from graphwright.arrays.operators import descriptions, special
from graphwright.arrays.operators.functions import (
    ELEMENTWISE,
    Functions,
    find_function,
    user_function,
)
from graphwright.arrays.operators.kernels import KERNELS, run_kernel
from graphwright.arrays.operators.worker import run_segment, take_item
