"""How one operator is spread over devices: on every axis split, replicated, or terms passed on.

aten.mm, out[i, j] = sum over k, on 2 x 2 devices:

i j      a quarter of the output each
i k      half of the rows each, and of the sum
- -      the same on all four
+0 -     the first argument is partial, and so is the output
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from graphwright.errors import InvalidStrategy
from graphwright.plans.mesh import Mesh


@dataclass(frozen=True, slots=True)
class Along:
    """Split along one of the operator's indices."""

    index: str

    def __str__(self) -> str:
        return self.index


@dataclass(frozen=True, slots=True)
class Replicate:
    """Compute the same on every device along the axis."""

    def __str__(self) -> str:
        return "-"


@dataclass(frozen=True, slots=True)
class Keep:
    """Compute on terms: `arguments` are partial sums along the axis, and so is the result.

    The operator is linear in these arguments.
    """

    arguments: tuple[int, ...]

    def __str__(self) -> str:
        return "+" + ",".join(map(str, self.arguments))


Choice = Along | Replicate | Keep


@dataclass(frozen=True, slots=True)
class Strategy:
    """A choice for every axis of a mesh: the whole cluster's, or one of some of its devices.

    Choices may be given as words: ``Strategy(("i", "-"))``.
    """

    choices: tuple[Choice, ...]
    mesh: Mesh | None = None
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            choices = tuple(parse_choice(c) if isinstance(c, str) else c for c in self.choices)
        except TypeError:
            choices = (None,)  # type: ignore[assignment]
        if not all(isinstance(c, Along | Replicate | Keep) for c in choices):
            raise InvalidStrategy(
                f"{self.choices!r} are no choices; give one for every axis: an index, '-' or '+0,1'"
            )
        if self.mesh is not None and not isinstance(self.mesh, Mesh):
            raise InvalidStrategy(f"{self.mesh!r} is no mesh; give a Mesh, or None for all devices")
        object.__setattr__(self, "choices", choices)
        if self.mesh is not None and len(self.choices) != len(self.mesh.shape):
            raise InvalidStrategy(
                f"{len(self.choices)} choices for a mesh of {len(self.mesh.shape)} axes "
                f"{self.mesh.shape}"
            )
        object.__setattr__(self, "_hash", hash((self.choices, self.mesh)))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        choices = " ".join(map(str, self.choices)) or "-"
        if self.mesh is None:
            return choices
        return f"{choices} on {', '.join(map(str, self.mesh.devices))}"


@lru_cache(maxsize=65536)
def on_one(device: int) -> Strategy:
    """The whole operator on one device."""
    return Strategy((), Mesh((device,), ()))


def parse_choice(word: str) -> Choice:
    """The choice that a word spells: an index, -, or +0,1."""
    if word == "-":
        return Replicate()
    if word.startswith("+"):
        numbers = word[1:].split(",")
        if all(n.isdecimal() and len(n) < 6 for n in numbers):
            return Keep(tuple(map(int, numbers)))
        raise InvalidStrategy(f"{word!r}: after + come the numbers of the arguments, as in +0,1")
    if not word:
        raise InvalidStrategy("an empty choice; write - for replication")
    return Along(word)
