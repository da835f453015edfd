"""Hypothesis strategies for Graphwright's values: small, valid, and as odd as the rules allow."""

from __future__ import annotations

from hypothesis import strategies as st

from graphwright.ir import (
    DTYPE_BYTES,
    PERSISTENT_ROLES,
    Attr,
    Graph,
    GraphBuilder,
    Phase,
    Role,
    TensorType,
)

OPS = (
    "aten.mm",
    "aten.add.Tensor",
    "aten.sum.dim_IntList",
    "aten.native_batch_norm",
    "prims.convert_element_type",
    "graphwright.fused",
)

# What models name their parts, and what nobody should but somebody will.
_PLAIN = st.from_regex(r"\A[a-z][a-z0-9_]{0,5}([./:][a-z0-9]{1,4}){0,3}\Z")
_ODD = st.text(min_size=1, max_size=6)
names = st.one_of(_PLAIN, _PLAIN, _ODD)

tensor_types = st.builds(
    TensorType,
    st.lists(st.integers(0, 70), max_size=4).map(tuple),
    st.sampled_from(sorted(DTYPE_BYTES)),
)

_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1, 1.0, True, 5e-324]),
    st.text(max_size=8),
)
attr_values: st.SearchStrategy[Attr] = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6
)
attr_names = st.from_regex(r"\A[a-z_][a-zA-Z0-9_]{0,6}\Z")
attributes = st.dictionaries(attr_names, attr_values, max_size=4)
modules = st.one_of(st.just(""), names)
places = st.one_of(st.none(), st.integers(0, 100))


@st.composite
def graphs(draw: st.DrawFn, max_inputs: int = 5, max_nodes: int = 8) -> Graph:
    """Draw a valid graph with every kind of role, phase, provenance and update."""
    build = GraphBuilder()
    available: list[str] = []
    for name in draw(st.lists(names, max_size=max_inputs, unique=True)):
        role = draw(st.sampled_from([*sorted(PERSISTENT_ROLES), Role.INPUT, Role.CONSTANT]))
        parameters = [n for n in available if build.tensor(n).role is Role.PARAMETER]
        of = None
        if role is Role.OPTIMIZER_STATE and parameters:
            of = draw(st.sampled_from([None, *parameters]))
        available.append(build.add_input(name, draw(tensor_types), Role(role), of))
    inputs = list(available)
    parameters = [n for n in inputs if build.tensor(n).role is Role.PARAMETER]
    forward: list[str] = []
    for _ in range(draw(st.integers(0, max_nodes))):
        phase = draw(st.sampled_from(list(Phase)))
        results = [draw(_results(build, available, inputs)) for _ in range(draw(st.integers(1, 3)))]
        types, roles, ofs = zip(*results, strict=True)
        is_backward, is_update = phase is Phase.BACKWARD, phase is Phase.UPDATE
        made = build.add(
            draw(st.sampled_from(OPS)),
            draw(st.lists(st.sampled_from([None, *available]), max_size=3)),
            draw(attributes),
            types,
            names=draw(st.one_of(st.none(), names)),
            phase=phase,
            role=roles,
            of=ofs,
            partner=draw(st.sampled_from([None, *forward])) if is_backward else None,
            module=draw(modules),
            layer=draw(places),
            step=draw(places),
            parameter=draw(st.sampled_from([None, *parameters])) if is_update else None,
        )
        available.extend(made)
        if phase is Phase.FORWARD:
            forward.append(made[0])
    outputs = draw(st.lists(st.sampled_from(available), max_size=4)) if available else []
    updates: dict[str, str] = {}
    for old in inputs:
        tensor = build.tensor(old)
        same = [n for n in outputs if build.type(n) == tensor.type]
        if tensor.role in PERSISTENT_ROLES and same and draw(st.booleans()):
            updates[old] = draw(st.sampled_from(same))
    return build.build(outputs, updates)


@st.composite
def _results(
    draw: st.DrawFn, build: GraphBuilder, available: list[str], inputs: list[str]
) -> tuple[TensorType, Role, str | None]:
    """Draw type, role and `of` for one output of a node."""
    persistent = [n for n in inputs if build.tensor(n).role in PERSISTENT_ROLES]
    choices = [Role.ACTIVATION, Role.ACTIVATION, Role.CONSTANT, Role.GRADIENT]
    match draw(st.sampled_from(choices + ([Role.PARAMETER] if persistent else []))):
        case Role.PARAMETER:
            old = build.tensor(draw(st.sampled_from(persistent)))
            return old.type, old.role, old.name
        case Role.GRADIENT if available:
            of = draw(st.sampled_from(available))
            dtype = draw(st.sampled_from(sorted(DTYPE_BYTES)))
            return TensorType(build.type(of).shape, dtype), Role.GRADIENT, of
        case role:
            return draw(tensor_types), role, None
