"""The two kinds of thing inside a graph: tensors, which hold values, and nodes, which compute them.

%fc.weight.grad: float32[10, 5] gradient of %fc.weight = aten.mm(%t_2, %inputs.0) @fc partner=%addmm
`--------------------- Tensor ------------------------'  `------------- Node ----------------------'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from graphwright.errors import InvalidGraph
from graphwright.ir.attrs import Attrs
from graphwright.ir.spelling import OP_NAME, Attr, spell_name, spell_path
from graphwright.ir.types import Phase, Role, TensorType


@dataclass(frozen=True, slots=True, repr=False)
class Tensor:
    """A named value.

    `of` is, for a gradient, the tensor that it is the gradient of; for optimizer state, the
    parameter that it belongs to; for the new value of a parameter, buffer or state, the input that
    it replaces.
    """

    name: str
    type: TensorType
    role: Role = Role.ACTIVATION
    of: str | None = None

    def __post_init__(self) -> None:
        if type(self.name) is not str or not self.name:
            raise InvalidGraph(f"a tensor's name has to be text, not {self.name!r}", rule="name")
        if not isinstance(self.type, TensorType):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidGraph(
                f"tensor {spell_name(self.name)} has {self.type!r} for a type; give a TensorType",
                rule="type",
                node=self.name,
            )
        if type(self.role) is not Role:
            object.__setattr__(self, "role", _role(self.role, self.name))

    def __repr__(self) -> str:
        return f"{spell_name(self.name)}: {self.type!r}{spell_role(self)}"


@dataclass(frozen=True, slots=True, repr=False)
class Node:
    """One operator application; its name is that of its first output.

    `inputs` are the tensor arguments in the order of the operator's schema, None where an optional
    one is absent; `attrs` are all its other arguments by name. The rest says where the node comes
    from: `partner` is the forward node of a backward node, `parameter` what an update node updates,
    `module` the path of the module, `layer` and `step` its place in a stack and in an unrolled
    recurrence.
    """

    op: str
    inputs: tuple[str | None, ...]
    attrs: Mapping[str, Attr]
    outputs: tuple[str, ...]
    phase: Phase = field(default=Phase.FORWARD, kw_only=True)
    partner: str | None = field(default=None, kw_only=True)
    module: str = field(default="", kw_only=True)
    layer: int | None = field(default=None, kw_only=True)
    step: int | None = field(default=None, kw_only=True)
    parameter: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not OP_NAME.fullmatch(self.op):
            raise InvalidGraph(
                f"operator name {self.op!r} is not of the form 'aten.mm' or 'aten.sum.dim_IntList'",
                rule="operator name",
            )
        if type(self.attrs) is not Attrs:
            try:
                object.__setattr__(self, "attrs", Attrs(self.attrs))
            except InvalidGraph as error:
                raise InvalidGraph(
                    f"{self.op} (making {', '.join(map(spell_name, self.outputs))}): {error}",
                    rule=error.rule,
                    node=self.outputs[0] if self.outputs else None,
                ) from None
        if type(self.inputs) is not tuple:
            object.__setattr__(self, "inputs", tuple(self.inputs))
        if type(self.outputs) is not tuple:
            object.__setattr__(self, "outputs", tuple(self.outputs))
        if not self.outputs:
            raise InvalidGraph(
                f"{self.op} has no outputs; each node makes one at least", rule="outputs"
            )
        if type(self.phase) is not Phase:
            object.__setattr__(self, "phase", _phase(self.phase, self.op))
        if type(self.module) is not str:
            raise InvalidGraph(
                f"{self.op} has {self.module!r} for a module path; give text", rule="provenance"
            )
        for place in (self.layer, self.step):
            if place is not None and type(place) is not int:
                raise InvalidGraph(
                    f"{self.op} has {place!r} for a layer or step; give a whole number or None",
                    rule="provenance",
                )

    @property
    def name(self) -> str:
        """The name of the first output."""
        return self.outputs[0]

    def __repr__(self) -> str:
        outputs = ", ".join(map(spell_name, self.outputs))
        return f"{outputs} = {spell_call(self)}{spell_provenance(self)}"


@dataclass(frozen=True, slots=True)
class Composite:
    """One kernel for what several nodes do: `op` of `inputs` makes `outputs`.

    An output that the graph does not have is None; `types` are those of all outputs. `digest` is
    that of what lies between (`region_between`): where that has changed, the kernel does something
    else.
    """

    op: str
    inputs: tuple[str | None, ...]
    attrs: Mapping[str, Attr]
    outputs: tuple[str | None, ...]
    types: tuple[TensorType, ...]
    digest: str

    def __post_init__(self) -> None:
        if type(self.attrs) is not Attrs:
            object.__setattr__(self, "attrs", Attrs(self.attrs))

    def renamed(self, name_of: Mapping[str, str]) -> Composite | None:
        """The same where tensors have other names; None where some are gone."""
        names = [n for n in (*self.inputs, *self.outputs) if n is not None]
        if not all(name in name_of for name in names):
            return None
        return replace(
            self,
            inputs=tuple([None if n is None else name_of[n] for n in self.inputs]),
            outputs=tuple([None if n is None else name_of[n] for n in self.outputs]),
        )


def spell_role(tensor: Tensor) -> str:
    """Spell what follows a tensor's type: ` gradient of %x`; nothing for a plain activation."""
    role = "" if tensor.role is Role.ACTIVATION else f" {tensor.role.value}"
    return role if tensor.of is None else f"{role} of {spell_name(tensor.of)}"


def spell_call(node: Node) -> str:
    """Spell the computation: `aten.sum.dim_IntList(%x; dim=(0,), keepdim=False)`."""
    inputs = ", ".join(["_" if name is None else spell_name(name) for name in node.inputs])
    attrs = node.attrs.text if isinstance(node.attrs, Attrs) else Attrs(node.attrs).text
    return f"{node.op}({inputs}; {attrs})" if attrs else f"{node.op}({inputs})"


def spell_provenance(node: Node) -> str:
    """Spell where a node comes from: ` @layer1.0 layer=3 step=2 partner=%conv`."""
    parts = ""
    if node.module:
        parts += f" @{spell_path(node.module)}"
    if node.layer is not None:
        parts += f" layer={node.layer}"
    if node.step is not None:
        parts += f" step={node.step}"
    if node.partner is not None:
        parts += f" partner={spell_name(node.partner)}"
    if node.parameter is not None:
        parts += f" parameter={spell_name(node.parameter)}"
    return parts


def _role(value: str, name: str) -> Role:
    try:
        return Role(value)
    except ValueError:
        raise InvalidGraph(
            f"tensor {spell_name(name)} has unknown role {value!r}; one of {', '.join(Role)}",
            rule="role",
        ) from None


def _phase(value: str, op: str) -> Phase:
    try:
        return Phase(value)
    except ValueError:
        raise InvalidGraph(
            f"{op} has unknown phase {value!r}; one of {', '.join(Phase)}", rule="phase"
        ) from None
