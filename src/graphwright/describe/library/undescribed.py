"""Operators that deliberately have no description; in a graph they would run whole."""

from graphwright.describe.language import leave_undescribed

leave_undescribed(
    "returns a number to Python, so a graph never contains it", "aten._local_scalar_dense"
)
leave_undescribed(
    "queries a shape or a layout, not a tensor",
    "aten.sym_numel",
    "aten.sym_size.int",
    "aten.sym_storage_offset",
    "aten.sym_stride.int",
)
leave_undescribed("the shape of its result depends on values", "aten.nonzero")
leave_undescribed("writes to an argument; a graph contains aten.atan2 instead", "aten.atan2.out")
leave_undescribed(
    "returns three gradients; capture replaces it by one described operator per gradient: "
    "graphwright.convolution_grad_input, graphwright.convolution_grad_weight, aten.sum.dim_IntList",
    "aten.convolution_backward",
)
leave_undescribed(
    "has no CPU kernel in PyTorch, so a description could not be checked",
    "aten._fused_rms_norm_backward",
)
leave_undescribed(
    "writes into memory by strides, which a graph does not have; capture writes slices, "
    "permutations or an index instead",
    "aten.as_strided_scatter",
)
leave_undescribed(
    "the signs of its vectors depend on the LAPACK library, so two machines may differ",
    "aten._linalg_svd",
    "aten._linalg_eigh",
    "aten.linalg_eig",
)
