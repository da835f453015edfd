"""Optimised models as files: the graph as JSON, the weights as tensors; no code, no pickle.

The file is PyTorch's own container of plain values and tensors, read with `weights_only`.
"""

from __future__ import annotations

import io
import json
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from graphwright.capture import arguments_of, write_kept_nodes
from graphwright.errors import GraphFileError, InvalidOption
from graphwright.files import read_whole, write_atomically
from graphwright.ir import Graph, from_json, to_json
from graphwright.pipeline.inference.module import Nested, program_of, shapes_of

FORMAT = {"format": "graphwright optimized", "version": 2}


def save(body: Nested, graph: Graph, report: dict[str, Any], path: Path) -> None:
    """Write a model: all of it, or nothing."""
    weights = [value for name, value in body.program.named_buffers()]
    document = {
        **FORMAT,
        "graph": to_json(graph),
        "weights": weights,
        "read": list(body.read),
        "channels_last": sorted(body.last),
        "results": json.dumps(body.results),
        "in_spec": pytree.treespec_dumps(body.in_spec),
        "out_spec": pytree.treespec_dumps(body.out_spec),
        "report": json.dumps(report),
    }
    buffer = io.BytesIO()
    torch.save(document, buffer)
    write_atomically(path, buffer.getvalue())


Names = tuple[tuple[str, ...], tuple[str, ...]]
"""Those of inputs and outputs."""


ONNX_BYTES = 2**31 - 2**20
"""What the weights of one file may take; protobuf's messages have less than 2 GiB."""


def save_exported(model: nn.Module, inputs: Any, path: Path, names: Names | None = None) -> None:
    """Write a module as `torch.export` does, or as ONNX with these names of inputs and outputs."""
    if inputs is None:
        raise InvalidOption(f"{path}: files of this kind need example inputs: save(path, inputs)")
    args, kwargs = arguments_of(inputs)
    if path.suffix == ".onnx":
        missing = [name for name in ("onnx", "onnxscript") if find_spec(name) is None]
        if missing:
            raise InvalidOption(f"{path}: ONNX needs {missing[0]}; pip install {missing[0]}")
        held = sum(tensor.nbytes for tensor in model.state_dict().values())
        if held >= ONNX_BYTES:
            raise InvalidOption(
                f"{path}: an ONNX file holds less than 2 GiB, and the weights are "
                f"{held / 2**30:.1f} GiB; save as .pt or .pt2"
            )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(model, args, kwargs)
        buffer = io.BytesIO()  # a full disk ends PyTorch's own writer, and the process with it
        if path.suffix == ".onnx":
            write_kept_nodes(program.graph)
            made = torch.onnx.export(
                program,
                (),
                dynamo=True,
                external_data=False,
                verbose=False,
                input_names=None if names is None else names[0],
                output_names=None if names is None else names[1],
            )
            assert made is not None
            buffer.write(made.model_proto.SerializeToString())
        else:
            torch.export.save(program, buffer)
    write_atomically(path, buffer.getvalue())


def load(path: Path) -> tuple[Nested, Graph, dict[str, Any]]:
    """Read a model, its graph and its report; what is none is refused."""
    try:
        document = torch.load(io.BytesIO(read_whole(path)), weights_only=True)
        if {key: document.get(key) for key in FORMAT} != FORMAT:
            raise ValueError(f"it is not of version {FORMAT['version']}")
        graph = from_json(document["graph"])
        held = [n for n in graph.inputs if graph.tensors[n].role != "input"]
        weights = dict(zip(held, document["weights"], strict=True))
        last = frozenset(document["channels_last"])
        body = Nested(
            program_of(graph, weights, last),
            tuple(document["read"]),
            shapes_of(graph),
            tuple((kind, what) for kind, what in json.loads(document["results"])),
            pytree.treespec_loads(document["in_spec"]),
            pytree.treespec_loads(document["out_spec"]),
            last,
        )
        return body.eval(), graph, json.loads(document["report"])
    except Exception as error:
        raise GraphFileError(
            f"{path} is no optimised model: {error}; write one with graphwright optimize -o"
        ) from error
