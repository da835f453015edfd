"""An ONNX file as a module of PyTorch's operators, for inputs of given shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from graphwright.capture.onnx.operators import Call, Kernel
from graphwright.errors import InvalidBatch


@dataclass(frozen=True, slots=True)
class Name:
    """An argument that is a tensor."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A call: its arguments are tensors by name, or numbers and lists that are known."""

    kernel: Kernel
    call: Call
    args: tuple[Any, ...]
    outputs: tuple[str, ...]
    op: str


class OnnxModule(nn.Module):
    """Computes what an ONNX file does; call it with its inputs in the file's order.

    `example` are inputs that it can be called with, `kept` says of each operator that is not read
    why, and how often it occurs: such nodes run by onnxruntime.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        weights: Mapping[str, Tensor],
        inputs: Sequence[str],
        outputs: Sequence[str],
        example: tuple[Tensor, ...],
        kept: Mapping[str, int],
        source: str,
    ) -> None:
        super().__init__()
        self.steps, self.example, self.kept = tuple(steps), example, dict(kept)
        self.input_names, self.output_names = tuple(inputs), tuple(outputs)
        self.source = source
        self._held: dict[str, str] = {}
        for number, (name, value) in enumerate(weights.items()):
            plain = "".join(c if c.isalnum() else "_" for c in name)
            self._held[name] = f"{plain}_{number}"
            self.register_buffer(self._held[name], value)
        self.eval()

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """The file's outputs: one tensor, or a tuple."""
        for name, x, like in zip(self.input_names, inputs, self.example, strict=True):
            if x.shape != like.shape:
                raise InvalidBatch(
                    f"input {name!r} has shape {list(x.shape)}, but {list(like.shape)} in the "
                    "example; read the file again with inputs of this shape"
                )
        values: dict[str, Any] = dict(zip(self.input_names, inputs, strict=True))
        values |= {name: getattr(self, held) for name, held in self._held.items()}
        for step in self.steps:
            args = [values[arg.name] if isinstance(arg, Name) else arg for arg in step.args]
            made = step.kernel(step.call, *args)
            results = (made,) if isinstance(made, Tensor) else made
            values.update(zip(step.outputs, results, strict=False))
        results = tuple(values[name] for name in self.output_names)
        return results[0] if len(results) == 1 else results


class Session(nn.Module):
    """The same file run by onnxruntime."""

    def __init__(self, session: Any, names: Sequence[str]) -> None:
        super().__init__()
        self.session, self.names = session, tuple(names)

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """The file's outputs: one tensor, or a tuple."""
        import torch

        given = {n: x.detach().cpu().numpy() for n, x in zip(self.names, inputs, strict=True)}
        made = tuple(torch.from_numpy(each) for each in self.session.run(None, given))
        return made[0] if len(made) == 1 else made
