"""Naming models: a name of the zoo, ``file.py:function``, or a graph that was saved."""

from __future__ import annotations

import inspect
import sys
import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from graphwright.errors import GraphwrightError, InvalidModelName

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from torch import nn

    from graphwright.gnn import DGLGraph
    from graphwright.ir import Graph
    from graphwright.plans import Plan
    from graphwright.zoo import Workload


def load_graph(name: str, batch_size: int | None, small: bool, plan: Plan | None = None) -> Graph:
    """The graph of a name, captured or read from its file; that of a plan if one is given."""
    from graphwright import ir
    from graphwright.rewrite import graph_of_plan

    if name.endswith((".json", ".json.gz")):
        if batch_size is not None or small:
            raise typer.BadParameter(
                f"--batch-size and --small are for models of the zoo, not {name}"
            )
        from graphwright.aten import check_calls

        graph = ir.load(name)
        check_calls(graph)
        return graph if plan is None else graph_of_plan(graph, plan)
    from graphwright.pipeline import prepare

    passes = ir.UNMERGED if plan is None else plan.passes
    return prepare(load_model(name, batch_size, small), passes)


def load_model(name: str, batch_size: int | None, small: bool, device: str = "meta") -> Workload:
    """The workload of a name; one of the zoo on that device, without values on "meta"."""
    from graphwright import zoo as models

    if ":" in name or name.endswith(".py"):
        if batch_size is not None or small:
            raise typer.BadParameter(
                f"--batch-size and --small are for models of the zoo; {name} makes its own batch"
            )
        return _load_file(name)
    if name.endswith((".json", ".json.gz", ".onnx", ".pt", ".pt2", ".safetensors")):
        raise InvalidModelName(
            f"{name} is a file of data, and this command runs the model itself: name its code, "
            "file.py:function"
        )
    return models.load(name, batch_size=batch_size, small=small, device=device)


def load_gnn(name: str) -> tuple[nn.Module, DGLGraph]:
    """The model and the graph that a function in a file of the user's returns."""
    from torch import nn

    from graphwright.gnn import DGLGraph

    made = _call_file(name)
    match made:
        case (nn.Module() as model, DGLGraph() as graph):
            return model, graph
    parts = made if isinstance(made, tuple) else (made,)
    kinds = ", ".join(type(part).__name__ for part in parts)
    raise InvalidModelName(
        f"{name} returned {kinds}; return (model, graph): a torch.nn.Module, and a DGLGraph as "
        "dgl.graph, dgl.from_networkx and dgl.data.from_pyg make it"
    )


def _call_file(name: str) -> object:
    """What a function in a file returns."""
    path, _, function = name.partition(":")
    if not function:
        raise InvalidModelName(f"{path}: name the function too, as in {path}:make_model")
    folder = str(Path(path).resolve().parent)
    sys.path.insert(0, folder)
    try:
        return _run_user_code(path, f"{function}() raised", _find_function(path, function))
    finally:
        sys.path.remove(folder)


def _load_file(name: str) -> Workload:
    """The workload that a function in a file of the user's returns."""
    from graphwright.zoo import Workload

    made = _call_file(name)
    if isinstance(made, Workload):
        return made
    if not isinstance(made, tuple) or len(made) not in (3, 4):
        what = f"a tuple of {len(made)}" if isinstance(made, tuple) else type(made).__name__
        raise InvalidModelName(
            f"{name} returned {what}; return (model, loss_fn, batch) or "
            "(model, loss_fn, batch, optimizer class)"
        )
    model, loss_fn, batch, *rest = made
    return Workload(
        name=name, model=model, loss_fn=loss_fn, batch=batch, optimizer=rest[0] if rest else None
    )


def _find_function(path: str, function: str) -> Callable[[], object]:
    """Import a file and return its function, which can be called without arguments."""
    from importlib.util import module_from_spec, spec_from_file_location

    if not Path(path).is_file():
        raise InvalidModelName(f"{path} is not a file")
    spec = spec_from_file_location(f"graphwright_model_{Path(path).stem}", path)
    if spec is None or spec.loader is None:
        raise InvalidModelName(f"{path} is not a Python file")
    module = sys.modules[spec.name] = module_from_spec(spec)
    _run_user_code(path, "importing it raised", partial(spec.loader.exec_module, module))
    make = getattr(module, function, None)
    if not callable(make):
        raise InvalidModelName(f"{path} has no function {function!r}{_others(module)}")
    needed = _required_arguments(make)
    if needed:
        raise InvalidModelName(
            f"{path}: {function} needs {', '.join(needed)}, but is called without arguments; give "
            "them defaults"
        )
    return make  # type: ignore[no-any-return]


def _others(module: ModuleType) -> str:
    """What else could be meant: the functions of a file that take no arguments."""
    known = [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and not _required_arguments(value)
    ]
    return f"; it has {', '.join(known[:8])}" if known else ""


def _run_user_code(path: str, what: str, code: Callable[[], object]) -> object:
    try:
        return code()
    except GraphwrightError:
        raise
    except (Exception, SystemExit) as error:
        raise _blame(path, what, error) from error


def _required_arguments(function: Callable[..., object]) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin tells nothing
        return []
    return [
        p.name
        for p in parameters
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]


def _blame(path: str, what: str, error: BaseException) -> InvalidModelName:
    """What went wrong in a user's file, with the last of its lines that took part."""
    here = Path(path).resolve()
    if isinstance(error, SyntaxError):
        place, line, text = error.filename or path, error.lineno, error.msg
        place = path if Path(place).resolve() == here else place
    else:
        place, text = path, str(error)
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if Path(frame.filename).resolve() == here
        ]
        line = lines[-1] if lines else None
    where = place if line is None else f"{place}:{line}"
    return InvalidModelName(f"{where}: {what} {type(error).__name__}: {text}")
