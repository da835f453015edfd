"""Content hashes: what a graph computes, whatever its intermediates are called.

A tensor's digest is a Merkle hash over the wiring below it:

    input        H("input", name, type, role, of)
    output i     H(H("node", op, attrs, digests of the inputs, types of the outputs), i)

`tensor_hashes` returns these: equal digests mean equal values, which is what common-subexpression
elimination looks for (operators that draw random numbers aside). The hash of a whole graph needs
more than values: two equal nodes are still two nodes, and it matters to memory and to cost which of
them feeds a consumer. So for `content_hash` the digest also covers the outputs' roles and `of`, and
the k-th node with the same digest is salted with k. The graph's hash is then taken over

    the inputs in order, the sorted digests of the nodes, the outputs in order, the updates.

Sorting makes it independent of the order in which independent nodes are listed; `program_hash`
covers the order too, for results that depend on it (memory plans). Names of intermediates and
provenance (phase, partner, module, layer, step, parameter) are in neither. One pass in program
order: linear, no recursion.

`value_hash` leaves out what does not change the values: the order of the inputs, which have names,
and which of two equal nodes is read. A model that iterates over a Python set is captured otherwise
by every process in just that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b

from graphwright.errors import InvalidGraph
from graphwright.ir.attrs import Attrs
from graphwright.ir.node import Node, Tensor
from graphwright.ir.spelling import spell_name

_ABSENT = b"\0" * 16
"""In the place of the digest of an absent optional input."""


def tensor_hashes(
    nodes: Iterable[Node], tensors: Mapping[str, Tensor], inputs: Sequence[str]
) -> dict[str, bytes]:
    """Digest of each tensor's value, by name; equal digests are common subexpressions."""
    return _digests(nodes, tensors, inputs, values_only=True)[0]


def value_hash(
    nodes: Sequence[Node],
    tensors: Mapping[str, Tensor],
    inputs: Sequence[str],
    outputs: Sequence[str],
    updates: Mapping[str, str],
) -> str:
    """The hash of what a graph computes, in hexadecimal; draws of one kind count as one value."""
    digests, per_node = _digests(nodes, tensors, inputs, values_only=True)
    signature = [
        *sorted(digests[name] for name in inputs),
        b"outputs",
        *(digests[name] for name in outputs),
        b"updates",
        *sorted(digests[old] + digests[new] for old, new in updates.items()),
    ]
    return _hash([b"values", *signature, b"nodes", *sorted(per_node)]).hex()


def content_hash(
    nodes: Sequence[Node],
    tensors: Mapping[str, Tensor],
    inputs: Sequence[str],
    outputs: Sequence[str],
    updates: Mapping[str, str],
) -> tuple[str, str]:
    """Return the hash of a graph and the hash of its program order, in hexadecimal."""
    digests, per_node = _digests(nodes, tensors, inputs, values_only=False)
    try:
        signature = [
            *(digests[name] for name in inputs),
            b"outputs",
            *(digests[name] for name in outputs),
            b"updates",
            *sorted(digests[old] + digests[new] for old, new in updates.items()),
        ]
    except KeyError as error:
        raise _unknown(str(error.args[0]), None) from None
    content = _hash([b"graph", *signature, b"nodes", *sorted(per_node)])
    program = _hash([b"program", content, *per_node])
    return content.hex(), program.hex()


MOST_IN_REGION = 64
"""A region between tensors has so many nodes at most."""


def region_between(
    producer: Callable[[str], Node | None],
    tensors: Mapping[str, Tensor],
    inputs: Sequence[str | None],
    outputs: Sequence[str | None],
) -> tuple[list[Node], str] | None:
    """The nodes that make `outputs` from `inputs`, and a hash of what they do.

    The hash knows inputs by their place, not their name, and no roles. There is no such region if
    something else is read, or if it is too large.
    """
    known: dict[str, bytes] = {}
    for place, name in enumerate(inputs):
        if name is not None:
            words = (f"input {place}", repr(tensors[name].type))
            known.setdefault(name, _hash([word.encode() for word in words]))
    members: dict[str, Node] = {}
    pending = [name for name in outputs if name is not None]
    while pending:
        name = pending[-1]
        if name in known:
            pending.pop()
            continue
        node = producer(name)
        if node is None or len(members) > MOST_IN_REGION:
            return None
        members[node.name] = node
        missing = [read for read in node.inputs if read is not None and read not in known]
        if missing:
            pending += missing
            continue
        attrs = node.attrs if isinstance(node.attrs, Attrs) else Attrs(node.attrs)
        parts = [node.op.encode(), attrs.text.encode()]
        parts += [_ABSENT if read is None else known[read] for read in node.inputs]
        parts += [repr(tensors[made].type).encode() for made in node.outputs]
        digest = _hash(parts)
        for i, made in enumerate(node.outputs):
            known[made] = _hash([b"output", digest, str(i).encode()])
    signature = [b"" if name is None else known[name] for name in outputs]
    return list(members.values()), _hash(signature).hex()


def _digests(
    nodes: Iterable[Node],
    tensors: Mapping[str, Tensor],
    inputs: Sequence[str],
    *,
    values_only: bool,
) -> tuple[dict[str, bytes], list[bytes]]:
    """Digests of the tensors by name and of the nodes in order, as defined above."""
    digests: dict[str, bytes] = {}
    per_node: list[bytes] = []
    seen: dict[bytes, int] = {}
    spelled: dict[int, bytes] = {}  # by id: a type shared by many tensors is spelled once
    for name in inputs:
        tensor = tensors[name]
        words = ("input", name, repr(tensor.type), tensor.role.value, tensor.of or "")
        digests[name] = _hash([word.encode("utf-8", "surrogatepass") for word in words])
    for node in nodes:
        attrs = node.attrs if isinstance(node.attrs, Attrs) else Attrs(node.attrs)
        parts = [b"node", node.op.encode(), attrs.text.encode()]
        try:
            for read in node.inputs:
                parts.append(_ABSENT if read is None else digests[read])
            parts.append(b"outputs")
            for name in node.outputs:
                tensor = tensors[name]
                key = id(tensor.type)
                if key not in spelled:
                    spelled[key] = repr(tensor.type).encode()
                parts.append(spelled[key])
                if not values_only:
                    parts.append(tensor.role.value.encode())
                    parts.append(_ABSENT if tensor.of is None else digests[tensor.of])
        except KeyError as error:
            raise _unknown(str(error.args[0]), node) from None
        digest = _hash(parts)
        if not values_only:
            count = seen.get(digest, 0)
            seen[digest] = count + 1
            if count:
                digest = _hash([b"again", digest, str(count).encode()])
        per_node.append(digest)
        if len(node.outputs) == 1:
            digests[node.outputs[0]] = digest
        else:
            for i, name in enumerate(node.outputs):
                digests[name] = _hash([b"output", digest, str(i).encode()])
    return digests, per_node


def _hash(parts: Sequence[bytes]) -> bytes:
    """Hash a list of byte strings, each framed by its length so that no two lists run together."""
    framed = b"".join([b"%d:%b" % (len(part), part) for part in parts])
    return blake2b(framed, digest_size=16).digest()


def _unknown(name: str, node: Node | None) -> InvalidGraph:
    place = "an output or update" if node is None else repr(node)
    return InvalidGraph(
        f"cannot hash the graph: {spell_name(name)} is not defined before {place}; "
        "run verify(graph)",
        rule="use before definition",
        node=None if node is None else node.name,
    )
