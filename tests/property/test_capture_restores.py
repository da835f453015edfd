"""Whatever happens in a capture, a model holds afterwards what it held before."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from graphwright import capture
from graphwright.capture.record.recorder import Recorder
from graphwright.errors import CaptureError


class Frozen(OrderedDict[str, Any]):
    """As the configuration of diffusers: a mapping whose every way to be written raises."""

    def __init__(self, **items: Any) -> None:
        super().__init__(**items)
        for name, value in items.items():
            object.__setattr__(self, name, value)

    def _refuse(self, *_: Any, **__: Any) -> None:
        raise RuntimeError("frozen")

    clear = update = pop = popitem = setdefault = __delitem__ = __setattr__ = _refuse  # type: ignore[assignment]


class ReadOnly(Mapping[str, Any]):
    """A mapping without a way to be emptied."""

    __slots__ = ("_items", "extra")

    def __init__(self, **items: Any) -> None:
        self._items = items

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


@dataclass(frozen=True, slots=True)
class FrozenPart:
    sizes: list[int] = field(default_factory=lambda: [1, 2])


@dataclass
class Output(OrderedDict[str, Any]):
    """As transformers' outputs: a dataclass that is a mapping too."""

    loss: Any = None

    def __post_init__(self) -> None:
        self["loss"] = self.loss


class Odd(nn.Module):
    """A model that holds many kinds of things, and changes all of them while it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(3, 3), nn.BatchNorm1d(3)
        self.tied = self.first
        self.config = Frozen(sizes=[1, 2], name="odd")
        self.mapping = ReadOnly(a=[1], b={"c": {1, 2}})
        self.part, self.output = FrozenPart(), Output(loss=1.5)
        self.space = SimpleNamespace(count=1, items=deque([1, 2]))
        self.nested = ({"x": [{"y": 1}]}, defaultdict(list, {"k": [1]}))
        self.unregistered = [nn.Linear(3, 3)]
        self.cache: dict[str, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        changes = (
            lambda: OrderedDict.__setitem__(self.config, "new", x),
            lambda: object.__setattr__(self.config, "name", "other"),
            lambda: self.mapping._items.clear(),
            lambda: setattr(self.mapping, "extra", x),
            lambda: self.mapping["b"]["c"].add(3) if "b" in self.mapping else None,
            lambda: object.__setattr__(self.part, "sizes", [x]),
            lambda: self.output.update(loss=x),
            lambda: setattr(self.output, "loss", x),
            lambda: self.space.items.appendleft(x),
            lambda: delattr(self.space, "items"),
            lambda: self.nested[0]["x"][0].update(y=x),
            lambda: self.nested[1]["new"].append(x),
            lambda: self.unregistered[0].register_buffer("more", x),
            lambda: self.cache.update(x=x),
            lambda: setattr(self, "added", x),
            lambda: self.train(not self.training),
            lambda: self.norm.register_forward_hook(lambda *_: None),
            lambda: delattr(self, "cache"),
        )
        for change in changes:
            x = self.norm(self.tied(x)) + 1
            change()
        return x


def held(thing: Any, seen: dict[int, Any]) -> Any:
    """What something holds, by identity, as far as it can be reached."""
    if isinstance(thing, (str, int, float, type(None), type, Tensor)) or (callable(thing) and not isinstance(thing, nn.Module)):  # fmt: skip
        return id(thing)
    if id(thing) in seen:
        return "seen", id(thing)
    seen[id(thing)] = thing  # kept, so that no other object gets its id
    contents: list[Any] = [id(thing)]
    if isinstance(thing, dict):
        base = OrderedDict if isinstance(thing, OrderedDict) else dict
        contents += [(key, held(value, seen)) for key, value in base.items(thing)]
    elif isinstance(thing, (list, tuple, set, deque)):
        contents += [held(item, seen) for item in iter(thing)]
    names = [n for kind in type(thing).__mro__ for n in getattr(kind, "__slots__", ())]
    contents += [(n, held(getattr(thing, n, None), seen)) for n in names if n != "__dict__"]
    contents += [(n, held(v, seen)) for n, v in getattr(thing, "__dict__", {}).items()]
    return contents


class Stop(Exception):
    """Raised in the middle of a step."""


def captured_until(model: nn.Module, number: int, error: type[BaseException]) -> int:
    """Capture a training step that is stopped at its nth operator; how many there were."""
    emit, count = Recorder.emit, 0

    def stopping(*args: Any, **kwargs: Any) -> None:
        nonlocal count
        count += 1
        if count == number:
            raise error
        emit(*args, **kwargs)

    with mock.patch.object(Recorder, "emit", stopping):
        capture.capture(
            model,
            lambda out, target: (out - target).square().mean(),
            (torch.zeros(4, 3), torch.zeros(4, 3)),
            optimizer=torch.optim.Adam,
        )
    return count


@settings(max_examples=25, deadline=None)
@given(share=st.floats(0, 1), error=st.sampled_from([Stop, KeyboardInterrupt, RuntimeError]))
@pytest.mark.filterwarnings("ignore:.*a number of Python")
def test_a_model_is_as_it_was_wherever_capture_stops(
    share: float, error: type[BaseException]
) -> None:
    model = Odd()
    before = held(model, {})
    values = {name: value.clone() for name, value in model.state_dict().items()}
    num_operators = captured_until(model, -1, error)
    assert held(model, {}) == before
    expected = KeyboardInterrupt if error is KeyboardInterrupt else CaptureError
    with pytest.raises(expected):
        captured_until(model, 1 + round(share * (num_operators - 1)), error)
    assert held(model, {}) == before
    assert all(torch.equal(values[name], value) for name, value in model.state_dict().items())
    model(torch.zeros(4, 3)).sum().backward()  # it is a working model
