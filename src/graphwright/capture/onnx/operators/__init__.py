"""What PyTorch calls for the operators of ONNX."""

from graphwright.capture.onnx.operators import elementwise, layers, shapes  # they file theirs
from graphwright.capture.onnx.operators.table import OPERATORS, Call, Kernel, Operator
