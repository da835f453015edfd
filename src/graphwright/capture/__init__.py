"""From a PyTorch model to the graph of its training or inference step.

    graph = gw.capture(model, loss_fn, batch, optimizer=torch.optim.Adam)

`capture` records the step on fake tensors; `replay` runs a graph with real ones; `bind` makes a
graph's inputs from a real model; `prepare` captures a workload; `advance` feeds a step's updates to
the next. The package can be called like the function, since both go by the same name.
"""

import inspect
import sys
from types import ModuleType
from typing import Any

from graphwright.aten import ConstantLearningRate, advance, bind, replay
from graphwright.capture.api import UndescribedOperators, capture
from graphwright.capture.exporting import Exported, arguments_of, export, without_cache
from graphwright.capture.onnx import OnnxModule, read_onnx, reference, write_kept_nodes
from graphwright.capture.options import read_arguments, read_options
from graphwright.capture.prepare import Parts, Trainable, prepare
from graphwright.capture.record import AssumedValues
from graphwright.ir import Graph

__signature__ = inspect.signature(capture)
__doc__ = f"{__doc__}\ncapture{__signature__}\n\n{inspect.getdoc(capture)}\n"


class _CallableModule(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Graph:
        return capture(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
