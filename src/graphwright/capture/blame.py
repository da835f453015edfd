"""From an exception in the middle of a step to an error of our own that names the user's line."""

from __future__ import annotations

import linecache
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import attrgetter
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
    ModelFailed,
    MutatedGlobal,
    UnsupportedModel,
)
from graphwright.user_code import is_users

_TORCH = os.path.dirname(torch.__file__) + os.sep
_LAYERS = tuple(_TORCH + folder + os.sep for folder in ("nn", "distributions"))


def source_line(traceback: TracebackType | None) -> str | None:
    """Return `file:line: source` of the innermost frame that is the user's."""
    frame = _users_frame(traceback)
    return (
        None if frame is None else f"{frame[0]}:{frame[1]}: {linecache.getline(*frame[:2]).strip()}"
    )


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
    """Turn what a step raises into a capture error with the line and module that caused it.

    `call` is what the step calls, in words.
    """
    try:
        with fake_tensors_silent():
            yield
    except CaptureError as error:
        where = _where(error.__traceback__, model)
        blamed = type(error)(f"{error}{where}")
        blamed.cause = error.cause
        raise blamed from None
    except GraphwrightError:
        raise
    except Exception as error:
        translated = _translate(error, call, model)
        translated.cause = error
        raise translated from None


@contextmanager
def fake_tensors_silent() -> Iterator[None]:
    """Have PyTorch not log a traceback of what it raises anyway."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    silenced, log.disabled = log.disabled, True
    try:
        yield
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
    "transformer.py": "the layer looks whether its mask is causal, so pass is_causal explicitly "
    "(True or False)",
    "batchnorm.py": "the layer averages over all batches (momentum=None), so give it a number as "
    "momentum",
}
"""What to do where PyTorch's own code looks at values, by a part of the file's name."""


def _remedy(traceback: TracebackType | None, model: nn.Module, otherwise: str) -> str:
    """What to do about code that depends on values, in the terms of who wrote it."""
    inside = library_line(traceback) or ""
    known = next((text for part, text in _REMEDIES.items() if part in inside), None)
    frame = _users_frame(traceback)
    if known is not None or frame is None:
        return known or otherwise
    file, number, variables = frame
    lines = "".join(linecache.getline(file, n) for n in range(number - _NEAR, number + 1))
    dropped = _layer_drop(lines, variables.get("self"), model)
    if dropped is not None:
        return dropped
    library = _library(file)
    if library is None:
        return otherwise
    if file.endswith(_SELF_LOOPS):
        return (
            "it drops the self-loops of an edge list before it adds its own: add them to the graph "
            "beforehand (torch_geometric.utils.add_remaining_self_loops), and give the layer "
            "add_self_loops=False"
        )
    has_others = getattr(model, "_can_set_experts_implementation", None)  # of transformers
    if "expert" in lines and has_others is not None and has_others():
        return 'its experts run one by one: call model.set_experts_implementation("batched_mm")'
    return (
        f"that is how {library} computes this part: choose another option for it where the model's "
        "configuration has one, or put a module without it in its place"
    )


_SELF_LOOPS = os.path.join("torch_geometric", "utils", "loop.py")
_NEAR = 8
"""How many lines before one that depends on a random number may say why."""


def _layer_drop(lines: str, module: object, model: nn.Module) -> str | None:
    """What to set where layers are skipped at random."""
    path = next((name for name, m in model.named_modules() if m is module), None)
    for attribute in reversed(re.findall(r"self\.([\w.]*drop[\w.]*)", lines)):
        try:
            value = attrgetter(attribute)(module)
        except AttributeError:
            continue
        if path is not None and isinstance(value, float) and value > 0:
            name = ".".join(filter(None, ("model", path, attribute)))
            return f"it skips layers at random, and a graph has all of them: set {name} = 0.0"
    return None


def _users_frame(traceback: TracebackType | None) -> tuple[str, int, Mapping[str, object]] | None:
    """File, line and variables of the innermost frame that is the user's."""
    innermost = None
    while traceback is not None:
        frame = traceback.tb_frame
        if is_users(frame.f_code.co_filename):
            innermost = frame.f_code.co_filename, traceback.tb_lineno, frame.f_locals
        traceback = traceback.tb_next
    return innermost


def _library(file: str) -> str | None:
    """The installed library that a file belongs to."""
    _, _, inside = file.replace("dist-packages", "site-packages").partition(
        "site-packages" + os.sep
    )
    return inside.partition(os.sep)[0] or None


def _translate(error: Exception, call: str, model: nn.Module) -> CaptureError:
    text, traceback = str(error), error.__traceback__
    where = _where(traceback, model)
    match error:
        case DataDependentOutputException():
            remedy = _remedy(
                traceback,
                model,
                "use torch.where or a mask in place of a branch, keep numbers in tensors, and log "
                "what the step returns",
            )
            return DataDependentControlFlow(
                f"the model reads a tensor's value ({error.func}), which is another one in each "
                f"step; {remedy}{where}"
            )
        case DynamicOutputShapeException() if "ctc_loss" in str(error.func):
            return DynamicShapeOperator(
                "the CTC loss cannot be captured: what its kernel keeps depends on the lengths "
                f"that it is given; train with another loss{where}"
            )
        case DynamicOutputShapeException():
            remedy = _remedy(
                traceback,
                model,
                "use a form with a fixed shape: (x * mask).sum() / mask.sum() for x[mask].mean(), "
                "ignore_index of a loss, torch.where with the mask, topk, padding",
            )
            return DynamicShapeOperator(
                f"the shape of {error.func}'s result depends on values; {remedy}{where}"
            )
        case NotImplementedError() if "flexattention" in text.lower().replace("_", ""):
            return UnsupportedModel(
                "flex_attention cannot be captured: it is one kernel for each program of scores, "
                "which only a compiler makes; use torch.nn.functional.scaled_dot_product_attention "
                "with the mask or bias that the program gives (transformers: "
                f'attn_implementation="sdpa"){where}'
            )
        case NotImplementedError() if "HigherOrderOperator" in text:
            return DataDependentControlFlow(
                "the model contains a control-flow operator (torch.cond, while_loop, scan), which "
                f"decides by values what runs; use torch.where or a mask, and loops of a fixed "
                f"length{where}"
            )
        case TypeError() if "__format__" in text:
            return DataDependentControlFlow(
                "the model formats a tensor's value into text; leave the value out of the step, or "
                f"print its shape{where}"
            )
        case _ if "tolist()" in text:
            remedy = _remedy(traceback, model, "keep numbers in tensors")
            return DataDependentControlFlow(
                f"the model reads a tensor's values (tolist); {remedy}{where}"
            )
        case _ if "mutating a non-functional tensor" in text:
            return MutatedGlobal(
                "the step writes to a tensor that is neither a parameter nor a buffer of the "
                "model; register it with register_buffer, or make scratch space from the step's "
                f"own tensors{where}"
            )
        case _ if "numpy" in text or "data pointer" in text or "data_ptr" in text:
            return GraphBreak(
                f"the model leaves PyTorch here ({_first_line(text)}); express it in torch "
                f"operators or register it with torch.library.custom_op{where}"
            )
        case _ if _is_ours(traceback):
            return CaptureError(
                f"capture itself failed, with {type(error).__name__}: {_first_line(text)}. This is "
                f"a defect: please report it{where}"
            )
        case _:
            return ModelFailed(
                f"{call} raised {type(error).__name__}: {_first_line(text)}; check the shapes and "
                "dtypes of the batch, and whether the model looks at something that tensors "
                f"without values do not have{where}"
            )


_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _is_ours(traceback: TracebackType | None) -> bool:
    """Whether an exception was raised by capture's own code."""
    file = ""
    while traceback is not None:
        file, traceback = traceback.tb_frame.f_code.co_filename, traceback.tb_next
    return file.startswith(_OURS)


def _first_line(text: str) -> str:
    return text.strip().split("\n")[0].rstrip(".")
