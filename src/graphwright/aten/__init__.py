"""The border between graph names and PyTorch: overloads, kernels, batches, optimizers, replay."""

from graphwright.aten import attention, grouped, kernels  # they register what they define
from graphwright.aten.autocast import casting, check_autocast, surrounding, without_autocast
from graphwright.aten.batches import (
    BatchDim,
    call,
    map_named,
    map_tensors,
    named_arguments,
    named_tensors,
    own_loss,
    refuse_arrays,
    split_batch,
)
from graphwright.aten.calls import call_checked, check_calls, complete_call, infer_types
from graphwright.aten.invoke import (
    bind_kernel,
    call_kernel,
    in_own_memory,
    in_place_of,
    keeps_channels_last,
    laid_out,
    overload_of,
    tensors_made,
)
from graphwright.aten.kernels import on_device
from graphwright.aten.operators import as_float32, as_pairs, aten, ours
from graphwright.aten.optimizers import (
    RATE,
    STEP,
    ConstantLearningRate,
    OptimizerLike,
    Update,
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
    update_of,
)
from graphwright.aten.replay import (
    advance,
    bind,
    eager_module,
    named_constants,
    replay,
    run_node,
)
from graphwright.aten.schema import Arguments, bind_arguments, join_arguments, split_arguments
from graphwright.aten.types import dtype_name, tensor_type, to_dtype
