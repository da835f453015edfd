"""The registry of described operators.

    @describe("aten.view", size=lambda out: out.shape)
    def view(x, *, size): ...

A keyword of `describe` names an attribute that restates a shape. Its function recomputes the
attribute from the shapes of a part; the arguments are tensors of the description, ``out`` or
``outs``, and attributes, all by name. One function may describe several operators.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from types import FunctionType

from graphwright.errors import UnknownOperator

LIBRARY = "graphwright.describe.library"


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What an operator computes, and how its attributes restate shapes."""

    op: str
    function: Callable[..., object]
    restated: dict[str, Callable[..., object]] = field(default_factory=dict)
    tensors: tuple[str, ...]
    variadic: str | None
    attrs: tuple[str, ...]

    def name_inputs(self, count: int) -> tuple[str, ...]:
        """The names of `count` tensor arguments."""
        names = list(self.tensors)
        if self.variadic:
            names += [f"{self.variadic}{n}" for n in range(count - len(names))]
        return tuple(names[:count])

    @property
    def source(self) -> str:
        """The source code of the description."""
        return inspect.getsource(self.function) if isinstance(self.function, FunctionType) else ""


_DESCRIPTIONS: dict[str, Description] = {}
_UNDESCRIBED: dict[str, str] = {}
_loaded = False


def describe(
    *ops: str, **restated: Callable[..., object]
) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Describe the operators `ops` by the decorated function; the latest description wins."""

    def register(function: Callable[..., object]) -> Callable[..., object]:
        for op in ops:
            _DESCRIPTIONS[op] = make_description(op, function, **restated)
        return function

    return register


def make_description(
    op: str, function: Callable[..., object], **restated: Callable[..., object]
) -> Description:
    """Make a description without registering it, to try it out."""
    tensors: list[str] = []
    variadic: str | None = None
    attrs: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            variadic = parameter.name
        elif parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            attrs.append(parameter.name)
        else:
            tensors.append(parameter.name)
    return Description(
        op=op,
        function=function,
        restated=restated,
        tensors=tuple(tensors),
        variadic=variadic,
        attrs=tuple(attrs),
    )


def leave_undescribed(reason: str, *ops: str) -> None:
    """State why operators have no description; they are opaque and listed with the reason."""
    _UNDESCRIBED.update(dict.fromkeys(ops, reason))


def undescribed() -> dict[str, str]:
    """The operators that deliberately have no description, with the reasons."""
    _load()
    return dict(_UNDESCRIBED)


def find(op: str) -> Description | None:
    """The description of `op`, or None."""
    _load()
    return _DESCRIPTIONS.get(op)


def require(op: str) -> Description:
    """The description of `op`, or an error that suggests similar names."""
    description = find(op)
    if description is not None:
        return description
    if op in _UNDESCRIBED:
        raise UnknownOperator(f"{op} deliberately has no description: {_UNDESCRIBED[op]}")
    raise UnknownOperator(
        f'{op} has no description{_suggest(op)}; add one with @graphwright.describe("{op}"); '
        "`graphwright describe --list` lists all described operators"
    )


def descriptions() -> Iterator[Description]:
    """All descriptions, sorted by operator name."""
    _load()
    return iter([_DESCRIPTIONS[op] for op in sorted(_DESCRIPTIONS)])


def _suggest(op: str) -> str:
    """The overloads of `op` (with ``aten.`` if it has no namespace), or else similar names."""
    from difflib import get_close_matches

    name = op.removeprefix("torch.").rstrip(".")
    name = name if "." in name else f"aten.{name}"
    known = sorted(_DESCRIPTIONS, key=lambda known: (len(known), not known.endswith(".Tensor")))
    close = [other for other in known if other == name or other.startswith(f"{name}.")]
    if not close:
        longer = [other for other in known if other.startswith(name)]
        close = list(dict.fromkeys([*longer, *get_close_matches(name, known, n=3)]))
    return f" (did you mean {', '.join(close[:3])}?)" if close else ""


def _load() -> None:
    global _loaded
    if not _loaded:
        _loaded = True
        import_module(LIBRARY)
