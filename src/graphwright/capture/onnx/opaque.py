"""An operator that is not read: a node kept as it is, run by onnxruntime.

    graphwright::onnx_node(inputs, node) -> outputs

`node` is JSON: the node's bytes without the names of its inputs and outputs, the versions of
operators, which inputs there are, and the types of the outputs. So equal nodes are equal texts, and
a saved graph has all that is needed to run the node or to write it into a file again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, fx
from torch.onnx.ops._symbolic_impl import EncodedAttrs

from graphwright.aten import dtype_name, to_dtype
from graphwright.capture.onnx.messages import NodeMessage, read_node
from graphwright.capture.onnx.tensors import KINDS
from graphwright.capture.onnx.wire import encoded, fields
from graphwright.errors import UnsupportedModel

_INPUT, _OUTPUT, _NAME, _TEXT = 1, 2, 3, 6
"""Fields of a node that are its names and its documentation."""


def spell(
    node: NodeMessage,
    inputs: Sequence[Tensor | None],
    outputs: Sequence[Tensor],
    opsets: Mapping[str, int],
    ir_version: int,
) -> str:
    """The text of a node whose inputs and outputs are like these."""
    kept = b"".join(
        encoded(number, value if isinstance(value, int) else bytes(value))
        for number, _, value in fields(memoryview(node.raw))
        if number not in (_INPUT, _OUTPUT, _NAME, _TEXT)
    )
    return json.dumps(
        {
            "node": base64.b64encode(kept).decode(),
            "opsets": {"": opsets[""], node.domain: opsets.get(node.domain, 1)},
            "ir_version": ir_version,
            "inputs": [tensor is not None for tensor in inputs],
            "outputs": [[dtype_name(t.dtype), list(t.shape)] for t in outputs],
            "called": [bool(name) for name in node.outputs],
        },
        sort_keys=True,
    )


def run_alone(
    node: NodeMessage,
    inputs: Sequence[Tensor | None],
    opsets: Mapping[str, int],
    ir_version: int,
) -> list[Tensor]:
    """Run a node on tensors, to know the types of its outputs."""
    return _run(spell(node, inputs, (), opsets, ir_version), [t for t in inputs if t is not None])


def has_runtime() -> bool:
    """Whether onnxruntime is installed."""
    return find_spec("onnxruntime") is not None


def _run(text: str, given: Sequence[Tensor]) -> list[Tensor]:
    spelled = json.loads(text)
    kinds = tuple(KINDS[tensor.dtype] for tensor in given)
    session = _session(text, kinds, tuple(tuple(tensor.shape) for tensor in given))
    places = (n for n, is_there in enumerate(spelled["inputs"]) if is_there)
    arrays = {f"i{n}": _array(t) for n, t in zip(places, given, strict=True)}
    device = given[0].device if given else None
    return [torch.from_numpy(made).to(device) for made in session.run(None, arrays)]


def _array(tensor: Tensor) -> Any:
    return tensor.detach().cpu().contiguous().numpy()


@lru_cache(maxsize=256)
def _session(text: str, kinds: tuple[int, ...], shapes: tuple[tuple[int, ...], ...]) -> Any:
    spelled = json.loads(text)
    present = [f"i{n}" if is_there else "" for n, is_there in enumerate(spelled["inputs"])]
    made = [f"o{n}" if is_there else "" for n, is_there in enumerate(spelled["called"])]
    node = b"".join(encoded(_INPUT, name) for name in present)
    node += b"".join(encoded(_OUTPUT, name) for name in made)
    node += base64.b64decode(spelled["node"])
    given = zip((name for name in present if name), kinds, shapes, strict=True)
    graph = encoded(1, node) + encoded(2, "node")
    graph += b"".join(encoded(11, _declared(*each)) for each in given)
    graph += b"".join(encoded(12, encoded(1, name)) for name in made if name)
    opsets = b"".join(
        encoded(8, (encoded(1, domain) if domain else b"") + encoded(2, version))
        for domain, version in spelled["opsets"].items()
    )
    return open_session(encoded(1, spelled["ir_version"]) + opsets + encoded(7, graph))


def _declared(name: str, kind: int, shape: tuple[int, ...]) -> bytes:
    dims = b"".join(encoded(1, encoded(1, size)) for size in shape)
    return encoded(1, name) + encoded(2, encoded(1, encoded(1, kind) + encoded(2, dims)))


def open_session(model: bytes | str) -> Any:
    """onnxruntime for a model, on as many threads as PyTorch."""
    try:
        import onnxruntime
    except ImportError:
        raise UnsupportedModel(
            "a node that is kept as it is runs by onnxruntime, which is not installed; "
            "pip install onnxruntime"
        ) from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = torch.get_num_threads(), 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _onnx_node(inputs: list[Tensor], node: str) -> list[Tensor]:
    made = _run(node, inputs)
    for tensor, (dtype, shape) in zip(made, json.loads(node)["outputs"], strict=True):
        if [dtype_name(tensor.dtype), list(tensor.shape)] != [dtype, shape]:
            raise UnsupportedModel(
                f"a node of the ONNX file gives {list(tensor.shape)}, but gave {shape} for the "
                "example: its shape depends on values"
            )
    return made


def _fake(inputs: list[Tensor], node: str) -> list[Tensor]:
    device = inputs[0].device if inputs else None
    outputs = json.loads(node)["outputs"]
    return [torch.empty(shape, dtype=to_dtype(name), device=device) for name, shape in outputs]


_LIBRARY = torch.library.Library("graphwright", "FRAGMENT")  # type: ignore[no-untyped-call]
_LIBRARY.define("onnx_node(Tensor[] inputs, str node) -> Tensor[]")  # type: ignore[no-untyped-call]
_LIBRARY.impl("onnx_node", _onnx_node, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
torch.library.register_fake("graphwright::onnx_node", _fake, lib=_LIBRARY)


def write_kept_nodes(graph: fx.Graph) -> None:
    """Let kept nodes of an exported program stand for ONNX's own, for `torch.onnx.export`."""
    for call in graph.nodes:
        if call.target is torch.ops.graphwright.onnx_node.default:
            spelled = json.loads(call.args[1])
            node = read_node(memoryview(base64.b64decode(spelled["node"])))
            given = iter(call.args[0])
            inputs = [next(given) if is_there else None for is_there in spelled["inputs"]]
            if not all(spelled["called"]):
                raise UnsupportedModel(f"{node.op} has an output without a name; save as .pt")
            try:
                attrs = EncodedAttrs.from_dict({n: _plain(v) for n, v in node.attrs.items()})
            except (ValueError, TypeError) as error:
                raise UnsupportedModel(
                    f"{node.op} cannot be written to an ONNX file: {error}; save as .pt"
                ) from error
            call.target = torch.ops.onnx_symbolic._symbolic_multi_out.default
            types = [(KINDS[to_dtype(name)], shape) for name, shape in spelled["outputs"]]  # type: ignore[index]
            call.args = (inputs, node.op, [kind for kind, _ in types])
            call.kwargs = {
                "shapes": [shape for _, shape in types],
                "attr_keys": attrs.attr_keys,
                "attr_types": attrs.attr_types,
                "attr_pos": attrs.attr_pos,
                "attr_ints": attrs.attr_ints,
                "attr_floats": attrs.attr_floats,
                "attr_strs": attrs.attr_strs,
                "metadata_props_keys": [],
                "metadata_props_values": [],
                "domain": node.domain,
                "version": spelled["opsets"][node.domain],
            }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
