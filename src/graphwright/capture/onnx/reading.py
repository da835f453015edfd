"""From the messages of an ONNX file to a module, by running it once on example inputs.

What is known before the model runs (weights, sizes, and all that follows from them) is computed
here and left out. Every other node becomes a call of PyTorch's operators, or is kept as it is where
it is none that is read, or does what is not supported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphwright.aten import dtype_name
from graphwright.capture.onnx.inputs import inputs_for
from graphwright.capture.onnx.messages import (
    Attribute,
    Declared,
    FunctionMessage,
    GraphMessage,
    ModelMessage,
    NodeMessage,
    StoredTensor,
    read_model,
)
from graphwright.capture.onnx.module import Name, OnnxModule, Session, Step
from graphwright.capture.onnx.opaque import has_runtime, open_session, run_alone, spell
from graphwright.capture.onnx.operators import OPERATORS, Call, Operator
from graphwright.capture.onnx.tensors import dtype_of, value_of
from graphwright.capture.onnx.wire import DamagedMessage
from graphwright.errors import GraphFileError, UnsupportedModel

OLDEST = 7
"""The first version of operators that spreads shapes as PyTorch does."""
DRAWING = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial",
     "Bernoulli"}
)  # fmt: skip
SIZED_BY_VALUES = frozenset({"NonMaxSuppression", "Unique", "Compress", "NonZero"})
DEEPEST = 50
"""How far functions may call others."""


def read_onnx(
    path: str | Path,
    inputs: Any = None,
    *,
    shapes: Mapping[str, int | Sequence[int]] | None = None,
) -> OnnxModule:
    """Read an ONNX file for inputs of given shapes.

    `inputs` is an example: a tensor, a tuple in the file's order, or a mapping from names. Without
    one, inputs are drawn; dims that the file leaves open are then in `shapes`: {"batch": 1}, or a
    whole shape, {"image": (1, 3, 224, 224)}.
    """
    path = Path(path)
    model = _open(path)
    if model.opsets[""] < OLDEST:
        raise UnsupportedModel(
            f"{path} uses version {model.opsets['']} of ONNX's operators, and those before "
            f"{OLDEST} are not read; convert it with onnx.version_converter, to 13 for example"
        )
    declared = [d for d in model.graph.inputs if d.name not in model.graph.weights]
    candidates = inputs_for(path, declared, inputs, shapes or {})
    for example in candidates[:-1]:
        try:
            return _Reading(path, model, declared, example).run()
        except UnsupportedModel:
            continue  # numbers that were drawn may not be allowed as indices
    return _Reading(path, model, declared, candidates[-1]).run()


def reference(module: OnnxModule) -> Session | OnnxModule:
    """What results are compared with: the file run by onnxruntime, where that is installed."""
    return Session(open_session(module.source), module.input_names) if has_runtime() else module


def _open(path: Path) -> ModelMessage:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise GraphFileError(f"cannot read {path}: {error.strerror}") from error
    try:
        return read_model(memoryview(data))
    except (DamagedMessage, RecursionError) as error:
        raise GraphFileError(
            f"{path} is no ONNX file, or is damaged: {error}; write it or copy it again"
        ) from error


class _Reading:
    def __init__(
        self,
        path: Path,
        model: ModelMessage,
        declared: Sequence[Declared],
        example: tuple[Tensor, ...],
    ) -> None:
        self.path, self.model, self.example = path, model, example
        self.opsets = model.opsets  # within a function, its own
        self.inputs = [d.name for d in declared]
        self.values: dict[str, Tensor] = dict(zip(self.inputs, example, strict=True))
        self.known: set[str] = set()
        self.steps: list[Step] = []
        self.kept: Counter[str] = Counter()
        self.declared: dict[str, Declared] = {}
        self._scopes = 0

    def run(self) -> OnnxModule:
        try:
            with torch.no_grad():
                self._graph(self.model.graph, {})
        except DamagedMessage as error:
            raise GraphFileError(f"{self.path} is damaged: {error}") from error
        outputs = [d.name for d in self.model.graph.outputs]
        missing = [name for name in outputs if name not in self.values]
        if missing or not outputs:
            what = f"no node makes its output {missing[0]!r}" if missing else "it has no outputs"
            raise GraphFileError(f"{self.path} is damaged: {what}")
        return self._module(outputs)

    def _module(self, outputs: list[str]) -> OnnxModule:
        """The steps that outputs need, and the weights that they read."""
        needed, steps = set(outputs), list[Step]()
        for step in reversed(self.steps):
            if not needed.isdisjoint(step.outputs):
                steps.append(step)
                needed.update(arg.name for arg in step.args if isinstance(arg, Name))
        weights = {n: self.values[n] for n in self.values if n in needed and n in self.known}
        return OnnxModule(
            steps[::-1], weights, self.inputs, outputs, self.example, self.kept, str(self.path)
        )

    # -- graphs --------------------------------------------------------------------------------

    def _graph(self, graph: GraphMessage, outer: Mapping[str, str], prefix: str = "") -> list[str]:
        """Read a graph that may read names of the one around it; returns those of its outputs."""
        names = dict(outer)
        for name, stored in graph.weights.items():
            names[name] = prefix + name
            self._set_known(prefix + name, value_of(stored, self.path.parent))
        self.declared |= {prefix + d.name: d for d in (*graph.known.values(), *graph.outputs)}
        if not prefix:
            names |= {name: name for name in self.inputs}
        self._nodes(graph.nodes, names, prefix)
        return [names.get(d.name, d.name) for d in graph.outputs]

    def _nodes(
        self, nodes: Sequence[NodeMessage], names: dict[str, str], prefix: str, depth: int = 0
    ) -> None:
        """Read nodes whose names stand for those of `names`, to which theirs are added."""
        for node in nodes:
            given = [names.get(name) if name else None for name in node.inputs]
            for name, found in zip(node.inputs, given, strict=True):
                if name and found is None:
                    raise DamagedMessage(f"{node} reads {name!r}, which nothing before it makes")
            made = [prefix + name if name else "" for name in node.outputs]
            function = self.model.functions.get((node.domain, node.op))
            if node.op == "If" and not node.domain:
                self._branch(node, given, made, names)
            elif function is not None:
                self._function(node, function, given, made, depth)
            else:
                self._node(node, given, made)
            names |= {name: full for name, full in zip(node.outputs, made, strict=True) if name}

    def _scope(self) -> str:
        self._scopes += 1
        return f"{self._scopes}/"

    def _branch(
        self,
        node: NodeMessage,
        given: Sequence[str | None],
        made: Sequence[str],
        names: Mapping[str, str],
    ) -> None:
        """The branch that is taken, where the condition is known."""
        if given[0] not in self.known:
            raise UnsupportedModel(
                f"{self.path}: which branch {node} takes depends on values; export the model "
                "without it"
            )
        taken = node.attrs.get(
            "then_branch" if bool(self.values[given[0] or ""]) else "else_branch"
        )
        if not isinstance(taken, GraphMessage):
            raise DamagedMessage(f"{node} has no branches")
        for name, result in zip(made, self._graph(taken, names, self._scope()), strict=True):
            self._alias(name, result)

    def _function(
        self,
        node: NodeMessage,
        function: FunctionMessage,
        given: Sequence[str | None],
        made: Sequence[str],
        depth: int,
    ) -> None:
        """The nodes that an operator of the file stands for."""
        if depth > DEEPEST:
            raise DamagedMessage(f"{node} calls itself")
        attrs = {**function.defaults, **node.attrs}
        inner = {a: b for a, b in zip(function.inputs, given, strict=False) if b is not None}
        nodes = []
        for each in function.nodes:
            here = {name: attrs[of] for name, of in each.references.items() if of in attrs}
            absent = [name for name in each.inputs if name in function.inputs and name not in inner]
            read = tuple("" if name in absent else name for name in each.inputs)
            raw = b"" if here else each.raw
            nodes.append(replace(each, inputs=read, attrs={**each.attrs, **here}, raw=raw))
        around, self.opsets = self.opsets, {**self.model.opsets, **function.opsets}
        self._nodes(nodes, inner, self._scope(), depth + 1)
        self.opsets = around
        for name, result in zip(made, function.outputs, strict=False):
            if name:
                self._alias(name, inner[result])

    def _alias(self, name: str, other: str) -> None:
        if other not in self.values:
            raise DamagedMessage(f"nothing makes {other!r}")
        if other in self.known:
            self._set_known(name, self.values[other])
        else:
            self._step("Identity", OPERATORS["Identity"], _call({}, 1, 13), [other], [name])

    def _set_known(self, name: str, value: Tensor) -> None:
        self.values[name] = value
        self.known.add(name)

    # -- nodes ---------------------------------------------------------------------------------

    def _node(self, node: NodeMessage, given: Sequence[str | None], made: Sequence[str]) -> None:
        if node.op in DRAWING:
            raise UnsupportedModel(
                f"{self.path}: {node} draws at random; the results could not be compared"
            )
        operator = OPERATORS.get(node.op) if not node.domain else None
        reason = "not read"
        if operator is not None:
            attrs = {
                name: value_of(value, self.path.parent)
                if isinstance(value, StoredTensor)
                else value
                for name, value in node.attrs.items()
            }
            read = max((n + 1 for n, name in enumerate(made) if name), default=1)
            dtype = next((self.values[name].dtype for name in given if name is not None), None)
            call = replace(_call(attrs, read, self.opsets[""]), dtype=dtype)
            try:
                self._step(node.op, operator, call, given, made, node)
                return
            except NotImplementedError as error:
                reason = str(error)
        self._keep(node, given, made, reason)

    def _step(
        self,
        op: str,
        operator: Operator,
        call: Call,
        given: Sequence[str | None],
        made: Sequence[str],
        node: NodeMessage | None = None,
    ) -> None:
        """Run an operator; what is not known before the model runs becomes a step of it."""
        args = [self._argument(operator, n, name, node) for n, name in enumerate(given)]
        values = [self.values[arg.name] if isinstance(arg, Name) else arg for arg in args]
        try:
            results = operator.kernel(call, *values)
        except NotImplementedError:
            raise
        except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
            shapes = ", ".join("none" if n is None else _type(self.values[n]) for n in given)
            raise UnsupportedModel(
                f"{self.path}: {node or op} does not fit its inputs ({shapes}): {error}"
            ) from error
        outputs = (results,) if isinstance(results, Tensor) else results
        is_known = op in ("Shape", "Size") or all(n is None or n in self.known for n in given)
        for name, value in zip(made, outputs, strict=False):
            if name and is_known:
                self._set_known(name, value)
            elif name:
                self.values[name] = value
        if not is_known:
            names = tuple(made)
            self.steps.append(
                Step(kernel=operator.kernel, call=call, args=tuple(args), outputs=names, op=op)
            )

    def _argument(
        self, operator: Operator, place: int, name: str | None, node: NodeMessage | None
    ) -> Any:
        """An input as the operator takes it: a name, or what is known."""
        if name is None:
            return None
        if place in operator.static and name not in self.known:
            raise UnsupportedModel(
                f"{self.path}: input {place} of {node}, {name!r}, depends on values, and with it "
                "the shape of the result; export the model for fixed shapes"
            )
        if name in self.known and place in operator.static | operator.optional:
            return self.values[name].tolist()
        return Name(name)

    def _keep(
        self, node: NodeMessage, given: Sequence[str | None], made: Sequence[str], reason: str
    ) -> None:
        """Keep a node as it is."""
        called = f"{node.domain}.{node.op}" if node.domain else node.op
        if node.op in SIZED_BY_VALUES:
            raise UnsupportedModel(f"{self.path}: the shape of what {node} gives depends on values")
        if not node.raw or node.references or _reads_outside(node):
            raise UnsupportedModel(f"{self.path}: {node} is not supported here: {reason}")
        inputs = [None if name is None else self.values[name] for name in given]
        opsets, version = self.opsets, self.model.ir_version
        if has_runtime():
            try:
                outputs = run_alone(node, inputs, opsets, version)
            except Exception as error:
                raise UnsupportedModel(
                    f"{self.path}: {node} is not supported ({reason}), and onnxruntime cannot run "
                    f"it: {error}"
                ) from error
        else:
            outputs = [self._declared_like(node, name) for name in made if name]
        self.kept[called if reason == "not read" else f"{called} ({reason})"] += 1
        text = spell(node, inputs, outputs, opsets, version)
        present = [name for name in given if name is not None]
        names = tuple(name for name in made if name)
        self.values.update(zip(names, outputs, strict=True))
        args = (text, *map(Name, present))
        self.steps.append(
            Step(kernel=_run_kept, call=_call({}, 1, 1), args=args, outputs=names, op=called)
        )

    def _declared_like(self, node: NodeMessage, name: str) -> Tensor:
        declared = self.declared.get(name)
        sizes = None if declared is None else declared.dims
        if declared is None or sizes is None or not all(isinstance(n, int) for n in sizes):
            raise UnsupportedModel(
                f"{self.path}: {node} is not supported, and the file does not say which shape "
                f"{name!r} has; pip install onnxruntime to find out and to run it"
            )
        return torch.zeros([int(n or 0) for n in sizes], dtype=dtype_of(declared.kind, repr(name)))


def _call(attrs: Mapping[str, Attribute | Tensor], num_outputs: int, opset: int) -> Call:
    return Call(attrs=attrs, opset=opset, num_outputs=num_outputs)


def _run_kept(call: Call, text: str, *inputs: Tensor) -> tuple[Tensor, ...]:
    return tuple(torch.ops.graphwright.onnx_node(list(inputs), text))


def _type(value: Tensor) -> str:
    return f"{dtype_name(value.dtype)}{list(value.shape)}"


def _reads_outside(node: NodeMessage) -> bool:
    """Whether a graph within a node reads what is outside of it."""
    return any(
        isinstance(value, GraphMessage) and not _is_closed(value) for value in node.attrs.values()
    )


def _is_closed(graph: GraphMessage) -> bool:
    made = {d.name for d in graph.inputs} | {*graph.weights}
    for node in graph.nodes:
        if any(name and name not in made for name in node.inputs) or _reads_outside(node):
            return False
        made.update(node.outputs)
    return True
