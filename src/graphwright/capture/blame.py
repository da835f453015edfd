"""From an exception in the middle of a step to an error of our own that names the user's line."""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
)

from graphwright.errors import (
    CaptureError,
    DataDependentControlFlow,
    DynamicShapeOperator,
    GraphBreak,
    GraphwrightError,
    MutatedGlobal,
)

_TORCH = os.path.dirname(torch.__file__) + os.sep
_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LIBRARIES = (_TORCH, _OURS, os.path.dirname(os.__file__) + os.sep)


def source_line(traceback: TracebackType | None) -> str | None:
    """Return `file:line: source` of the innermost frame that is neither PyTorch's nor ours."""
    found = None
    while traceback is not None:
        code, number = traceback.tb_frame.f_code, traceback.tb_lineno
        if not code.co_filename.startswith(_LIBRARIES) and not code.co_filename.startswith("<"):
            text = linecache.getline(code.co_filename, number).strip()
            found = f"{code.co_filename}:{number}: {text}"
        traceback = traceback.tb_next
    return found


@contextmanager
def blaming() -> Iterator[None]:
    """Turn whatever the step raises into a capture error with the line that caused it."""
    try:
        yield
    except GraphwrightError as error:
        line = source_line(error.__traceback__)
        if isinstance(error, CaptureError) and line is not None and line not in str(error):
            raise type(error)(f"{error}\n  at {line}").with_traceback(error.__traceback__) from None
        raise
    except Exception as error:
        raise _translate(error) from error


def _translate(error: Exception) -> CaptureError:
    line = source_line(error.__traceback__)
    where = "" if line is None else f"\n  at {line}"
    text = str(error)
    match error:
        case DataDependentOutputException():
            return DataDependentControlFlow(
                f"the model reads a tensor's value ({error.func}), which decides how it goes on; use "
                f"torch.where or a mask instead of a branch, and keep numbers in tensors{where}"
            )
        case DynamicOutputShapeException():
            return DynamicShapeOperator(
                f"the shape of {error.func}'s result depends on values; use a form with a fixed shape "
                f"(torch.where with the mask, topk, padding){where}"
            )
        case NotImplementedError() if "HigherOrderOperator" in text:
            return DataDependentControlFlow(
                "the model contains a control-flow operator (torch.cond, while_loop, scan), which decides by "
                f"values what runs; use torch.where or a mask, and loops of a fixed length{where}"
            )
        case _ if "tolist()" in text:
            return DataDependentControlFlow(
                f"the model reads a tensor's values (tolist); keep numbers in tensors{where}"
            )
        case _ if "mutating a non-functional tensor" in text:
            return MutatedGlobal(
                "the step writes to a tensor that is neither a parameter nor a buffer of the model; register "
                f"it with register_buffer, or make scratch space from the step's own tensors{where}"
            )
        case _ if "numpy" in text or "data pointer" in text or "data_ptr" in text:
            return GraphBreak(
                f"the model leaves PyTorch here ({_first_line(text)}); express it in torch operators or "
                f"register it with torch.library.custom_op{where}"
            )
        case _:
            return CaptureError(
                f"the step raised {type(error).__name__}: {_first_line(text)}; check that "
                f"loss_fn(model(inputs), targets) runs eagerly with these shapes and dtypes{where}"
            )


def _first_line(text: str) -> str:
    return text.strip().split("\n")[0].rstrip(".")
