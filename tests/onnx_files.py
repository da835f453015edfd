"""ONNX files written byte by byte, so that tests need no other package."""

from __future__ import annotations

import struct

import torch

from graphwright.capture.onnx.tensors import KINDS
from graphwright.capture.onnx.wire import encoded


def tensor(value, name=""):
    """The bytes of a tensor."""
    dims = b"".join(encoded(1, n) for n in value.shape)
    data = value.contiguous().flatten().view(torch.uint8) if value.numel() else value
    return (
        dims + encoded(2, KINDS[value.dtype]) + encoded(8, name) + encoded(9, bytes(data.tolist()))
    )


def _attribute(name, value):
    head = encoded(1, name)
    match value:
        case bool() | int():
            return head + encoded(3, int(value)) + encoded(20, 2)
        case float():
            return head + bytes([2 << 3 | 5]) + struct.pack("<f", value) + encoded(20, 1)
        case str():
            return head + encoded(4, value) + encoded(20, 3)
        case torch.Tensor():
            return head + encoded(5, tensor(value)) + encoded(20, 4)
        case bytes():
            return head + encoded(6, value) + encoded(20, 5)
        case [float(), *_]:
            return head + encoded(7, struct.pack(f"<{len(value)}f", *value)) + encoded(20, 6)
        case _:
            return head + b"".join(encoded(8, v) for v in value) + encoded(20, 7)


def node(op, inputs, outputs, domain="", **attrs):
    """The bytes of a node."""
    made = b"".join(encoded(1, name) for name in inputs)
    made += b"".join(encoded(2, name) for name in outputs)
    made += encoded(4, op) + encoded(7, domain)
    return made + b"".join(encoded(5, _attribute(*each)) for each in attrs.items())


def declared(name, dtype, dims):
    """The bytes of an input or output; a dim is a size, or a name where it is open."""
    sizes = b"".join(encoded(1, encoded(2 if isinstance(n, str) else 1, n)) for n in dims)
    return encoded(1, name) + encoded(2, encoded(1, encoded(1, KINDS[dtype]) + encoded(2, sizes)))


def graph(nodes, inputs, outputs, weights=()):
    """The bytes of a graph."""
    made = b"".join(encoded(1, each) for each in nodes) + encoded(2, "graph")
    made += b"".join(encoded(5, tensor(value, name)) for name, value in dict(weights).items())
    made += b"".join(encoded(11, each) for each in inputs)
    return made + b"".join(encoded(12, each) for each in outputs)


def model(nodes, inputs, outputs, weights=(), opset=17, functions=(), more=()):
    """The bytes of a file: inputs are (name, dtype, dims), outputs names."""
    given = [declared(*each) for each in inputs]
    made = encoded(1, 8) + encoded(8, encoded(2, opset))
    made += b"".join(encoded(8, encoded(1, domain) + encoded(2, 1)) for domain in more)
    made += b"".join(encoded(25, each) for each in functions)
    return made + encoded(7, graph(nodes, given, [encoded(1, name) for name in outputs], weights))


def write(path, *args, **options):
    """Write a file and return its path."""
    path.write_bytes(model(*args, **options))
    return path
