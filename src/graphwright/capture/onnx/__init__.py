"""ONNX files as modules of PyTorch's operators. Reading one needs no other package.

wire, messages, tensors    the file: protocol buffers, graphs and nodes, weights
inputs                     what the file is read for
operators                  what PyTorch calls for each operator
opaque                     nodes that are kept as they are
reading, module            all of it as a module
"""

from graphwright.capture.onnx.module import OnnxModule
from graphwright.capture.onnx.opaque import write_kept_nodes
from graphwright.capture.onnx.reading import read_onnx, reference
