"""Operators that have no description, with the reason; inside a graph they would be opaque and run whole."""

from graphwright.describe.registry import leave_undescribed

leave_undescribed(
    "returns a number to Python, so a graph never holds it", "aten._local_scalar_dense"
)
leave_undescribed(
    "asks for a shape or a layout, not for a tensor",
    "aten.sym_numel",
    "aten.sym_size.int",
    "aten.sym_storage_offset",
    "aten.sym_stride.int",
)
leave_undescribed("the shape of its result depends on values", "aten.nonzero")
leave_undescribed("writes to an argument; a graph holds aten.atan2 instead", "aten.atan2.out")
leave_undescribed(
    "returns three gradients at once; capture writes one operator per result, which are described: "
    "graphwright.convolution_grad_input, graphwright.convolution_grad_weight, aten.sum.dim_IntList",
    "aten.convolution_backward",
)
leave_undescribed(
    "PyTorch has no CPU kernel for it, and a description that cannot be run cannot be checked",
    "aten._fused_rms_norm_backward",
)
leave_undescribed(
    "writes into the memory that its argument lies in; a graph has no strides",
    "aten.as_strided_scatter",
)
leave_undescribed(
    "the signs of its vectors are the choice of the LAPACK that runs it, so two machines may differ",
    "aten._linalg_svd",
    "aten._linalg_eigh",
    "aten.linalg_eig",
)
