"""From an exception in the middle of a step to an error of our own that names the user's line."""

from __future__ import annotations

import linecache
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

import torch
from torch import nn
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
from graphwright.user_code import is_users

_TORCH = os.path.dirname(torch.__file__) + os.sep
_LAYERS = tuple(_TORCH + folder + os.sep for folder in ("nn", "distributions"))


def source_line(traceback: TracebackType | None) -> str | None:
    """Return `file:line: source` of the innermost frame that is the user's."""
    line = None
    while traceback is not None:
        code, number = traceback.tb_frame.f_code, traceback.tb_lineno
        if is_users(code.co_filename):
            text = linecache.getline(code.co_filename, number).strip()
            line = f"{code.co_filename}:{number}: {text}"
        traceback = traceback.tb_next
    return line


def library_line(traceback: TracebackType | None) -> str | None:
    """Return `torch/file:line: source` where PyTorch's own layers, called last, went wrong."""
    line = None
    while traceback is not None:
        code, number = traceback.tb_frame.f_code, traceback.tb_lineno
        if is_users(code.co_filename):
            line = None
        elif code.co_filename.startswith(_LAYERS) and "_call_impl" not in code.co_name:
            text = linecache.getline(code.co_filename, number).strip()
            line = f"torch{os.sep}{code.co_filename.removeprefix(_TORCH)}:{number}: {text}"
        traceback = traceback.tb_next
    return line


def module_path(traceback: TracebackType | None, model: nn.Module) -> str | None:
    """Return the path and type of the innermost module of the model whose call failed."""
    paths = {id(module): path for path, module in model.named_modules()}
    module_name = None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_name == "_call_impl":
            module = traceback.tb_frame.f_locals.get("self")
            path = paths.get(id(module))
            if path is not None:
                module_name = f"{path or 'the model itself'} ({type(module).__name__})"
        traceback = traceback.tb_next
    return module_name


@contextmanager
def blaming(model: nn.Module, call: str) -> Iterator[None]:
    """Turn whatever the step, which makes this call, raises into a capture error with the line and module that caused it."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    silenced, log.disabled = log.disabled, True  # it would print what is raised here anyway
    try:
        yield
    except CaptureError as error:
        where = _where(error.__traceback__, model)
        blamed = type(error)(f"{error}{where}")
        blamed.cause = error.cause
        raise blamed from None
    except GraphwrightError:
        raise
    except Exception as error:
        translated = _translate(error, call, _where(error.__traceback__, model))
        translated.cause = error
        raise translated from None
    finally:
        log.disabled = silenced


def _where(traceback: TracebackType | None, model: nn.Module) -> str:
    line, inside = source_line(traceback), library_line(traceback)
    path = module_path(traceback, model)
    return (
        ("" if line is None else f"\n  at {line}")
        + ("" if inside is None else f"\n  inside {inside}")
        + ("" if path is None else f"\n  in {path}")
    )


_REMEDIES = {
    "distributions": "the distribution checks its arguments, so make it with validate_args=False",
    "transformer.py": "the layer looks whether its mask is causal, so pass is_causal explicitly "
    "(True or False)",
    "batchnorm.py": "the layer averages over all batches (momentum=None), so give it a number as momentum",
}
"""What to do where PyTorch's own code looks at values, by a part of the file's name."""

_ANY_REMEDY = "use torch.where or a mask instead of a branch, and keep numbers in tensors"


def _translate(error: Exception, call: str, where: str) -> CaptureError:
    text = str(error)
    match error:
        case DataDependentOutputException():
            inside = library_line(error.__traceback__) or ""
            remedy = next((text for part, text in _REMEDIES.items() if part in inside), _ANY_REMEDY)
            return DataDependentControlFlow(
                f"the model reads a tensor's value ({error.func}), which decides how it goes on; "
                f"{remedy}{where}"
            )
        case DynamicOutputShapeException() if "ctc_loss" in str(error.func):
            return DynamicShapeOperator(
                f"the CTC loss cannot be captured: what its kernel keeps depends on the lengths that it is given; train with another loss{where}"
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
        case TypeError() if "__format__" in text:
            return DataDependentControlFlow(
                "the model formats a tensor's value into text; leave the value out of the step, or print its "
                f"shape{where}"
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
                f"{call} runs eagerly with these shapes and dtypes{where}"
            )


def _first_line(text: str) -> str:
    return text.strip().split("\n")[0].rstrip(".")
