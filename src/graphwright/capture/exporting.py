"""An inference module as a graph of its own ATen calls, by `torch.export`.

`capture` takes operators apart so that they can be split. Here they stay whole, as the kernels that
the module runs, and the graph comes with all that is needed to run it again: the weights, and how
arguments and results are nested.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from graphwright.aten import bind_arguments, split_arguments, tensor_type
from graphwright.capture.blame import fake_tensors_silent
from graphwright.errors import UnsupportedModel
from graphwright.ir import Graph, GraphBuilder, Role

_ROLES = {
    InputKind.USER_INPUT: Role.INPUT,
    InputKind.PARAMETER: Role.PARAMETER,
    InputKind.BUFFER: Role.BUFFER,
    InputKind.CONSTANT_TENSOR: Role.CONSTANT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A graph, its weights by name, and how what goes in and comes out is nested.

    `inputs` are the graph's inputs in the order of the arguments, None for one that is no tensor;
    `outputs` the results in order: ("tensor", its name) or ("plain", what it is).
    """

    graph: Graph
    weights: Mapping[str, Tensor]
    inputs: tuple[str | None, ...]
    outputs: tuple[tuple[str, Any], ...]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec


def export(model: nn.Module, inputs: Any) -> Exported:
    """Read a module in eval mode, called with a tensor, a tuple or keyword arguments."""
    args, kwargs = arguments_of(inputs)
    if not isinstance(model, nn.Module):
        raise UnsupportedModel(f"model has to be an nn.Module, not {type(model).__name__}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with without_cache(model), fake_tensors_silent():
                program = torch.export.export(model, args, kwargs).run_decompositions({})
        except Exception as error:
            first = str(error).strip().splitlines()
            raise UnsupportedModel(
                f"torch.export cannot read {type(model).__name__}: "
                f"{first[0] if first else type(error).__name__}; give a module whose control flow "
                "does not depend on values, and example inputs that fit it"
            ) from error
    return _Reading(program).run()


@contextmanager
def without_cache(model: nn.Module) -> Iterator[None]:
    """Have a language model of transformers return no cache of keys, which is no tensor."""
    config = getattr(model, "config", None)
    used = getattr(config, "use_cache", None)
    if not isinstance(used, bool):
        yield
        return
    config.use_cache = False  # type: ignore[union-attr]
    try:
        yield
    finally:
        config.use_cache = used  # type: ignore[union-attr]


def arguments_of(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of inputs: a tensor, a tuple or a mapping."""
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (inputs, {}) if isinstance(inputs, tuple) else ((inputs,), {})


class _Reading:
    def __init__(self, program: torch.export.ExportedProgram) -> None:
        self.program, self.build = program, GraphBuilder()
        self.names: dict[fx.Node, Any] = {}
        self.weights: dict[str, Tensor] = {}
        self.inputs: list[str | None] = []

    def run(self) -> Exported:
        signature = self.program.graph_signature
        changed = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
        if changed:
            raise UnsupportedModel(
                f"the model changes {changed[0]} when it is called; for inference call model.eval()"
            )
        specs = {spec.arg.name: spec for spec in signature.input_specs}
        for node in self.program.graph.nodes:
            match node.op:
                case "placeholder":
                    self._placeholder(node, specs[node.name])
                case "call_function":
                    self._call(node)
                case "output":
                    return self._exported(node)
                case _:
                    raise UnsupportedModel(
                        f"torch.export left {node.op} {node.target} in the graph"
                    )
        raise UnsupportedModel("torch.export gave a program that returns nothing")

    def _placeholder(self, node: fx.Node, spec: Any) -> None:
        value = node.meta.get("val")
        if spec.kind is InputKind.USER_INPUT:
            if not isinstance(value, Tensor):
                self.inputs.append(None)
                return
            self.inputs.append(node.name)
            self.names[node] = self.build.add_input(node.name, tensor_type(value), Role.INPUT)
            return
        role = _ROLES.get(spec.kind)
        if role is None or not isinstance(value, Tensor):
            raise UnsupportedModel(f"the model holds {spec.target}, a {spec.kind.name.lower()}")
        name = spec.target
        held = self.program.state_dict.get(name, self.program.constants.get(name))
        assert isinstance(held, Tensor)
        self.weights[name] = held.detach()
        self.names[node] = self.build.add_input(name, tensor_type(value), role)

    def _call(self, node: fx.Node) -> None:
        if node.target is operator.getitem:
            source, index = node.args
            assert isinstance(source, fx.Node) and isinstance(index, int)
            self.names[node] = self.names[source][index]
            return
        value = node.meta.get("val")
        if value is None and not node.users:
            return  # an assertion about shapes that export knows already
        overload = node.target
        values: Any = [value] if isinstance(value, Tensor) else value
        if not isinstance(overload, torch._ops.OpOverload) or not _are_tensors(values):
            raise UnsupportedModel(
                f"{node.target} in the exported model gives no tensor; shapes and control flow "
                "that depend on values cannot be optimised"
            )
        arguments = bind_arguments(overload, node.args, node.kwargs)
        overload = _for_numbers(overload, arguments)
        inputs, attrs = split_arguments(overload, arguments)
        read = [self._read(i, inputs) for i in inputs]
        types = [tensor_type(v) for v in values]
        made = self.build.add(op_name(overload), read, attrs, types)
        self.names[node] = made[0] if isinstance(value, Tensor) else made

    def _read(self, given: Any, inputs: Sequence[Any]) -> str | None:
        """The name of an argument; a number in the place of a tensor is a constant."""
        if given is None or isinstance(given, fx.Node):
            return None if given is None else self.names[given]
        other = next(i.meta["val"] for i in inputs if isinstance(i, fx.Node))
        held = torch.tensor(given, dtype=torch.result_type(other, given))
        name = f"number.{len(self.weights)}"
        self.weights[name] = held
        return self.build.add_input(name, tensor_type(held), Role.CONSTANT)

    def _exported(self, node: fx.Node) -> Exported:
        signature = self.program.graph_signature
        assert all(spec.kind is OutputKind.USER_OUTPUT for spec in signature.output_specs)
        results: Any = node.args[0]
        outputs = tuple(
            ("tensor", self.names[r]) if isinstance(r, fx.Node) else ("plain", r) for r in results
        )
        given = {name for name in self.inputs if name is not None}
        tensors = dict.fromkeys(what for kind, what in outputs if kind == "tensor")
        made = [name for name in tensors if name not in given]
        if not made:
            raise UnsupportedModel("the model returns nothing that it computes")
        in_spec, out_spec = self.program.call_spec.in_spec, self.program.call_spec.out_spec
        assert in_spec is not None and out_spec is not None
        return Exported(
            graph=self.build.build(made),
            weights=self.weights,
            inputs=tuple(self.inputs),
            outputs=outputs,
            in_spec=in_spec,
            out_spec=out_spec,
        )


def _for_numbers(
    overload: torch._ops.OpOverload, arguments: Mapping[str, Any]
) -> torch._ops.OpOverload:
    """The overload for a number, `mul.Scalar`, where one is given in the place of a tensor."""
    other = arguments.get("other")
    if overload._overloadname != "Tensor" or not isinstance(other, int | float):
        return overload
    return getattr(overload.overloadpacket, "Scalar", overload)


def op_name(overload: torch._ops.OpOverload) -> str:
    """How a graph names an operator: `aten.conv2d`, `aten.add.Tensor`."""
    name = str(overload)
    return name.removesuffix(".default")


def _are_tensors(values: Any) -> bool:
    return isinstance(values, tuple | list) and all(isinstance(v, Tensor) for v in values)
