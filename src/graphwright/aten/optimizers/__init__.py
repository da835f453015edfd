"""The user's optimizer as tensors: its twin, its state and rates, and kernels for its update."""

from graphwright.aten.optimizers.twin import (
    RATE,
    STEP,
    ConstantLearningRate,
    OptimizerLike,
    blamed_on,
    check_counts,
    fixed_options,
    for_one,
    groups_with_rates,
    initial_state,
    is_number,
    is_rate,
    learning_rates,
    make_optimizer,
    numbers_in_state,
    own_numbers,
    rate_label,
    refuse_changes,
    stepping,
    twin,
)
from graphwright.aten.optimizers.updates import Update, update_of
