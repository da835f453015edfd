"""Graphs, descriptions and models by name."""

from graphwright.errors.base import GraphwrightError


class InvalidGraph(GraphwrightError):
    """A graph breaks a rule that every stage relies on.

    `rule` names the rule (`graphwright.ir.verify` lists them), `node` the operator or tensor at
    fault. Graphs from `capture`, `parse_text`, `load` and `GraphBuilder.build` are always valid, so
    an invalid one was edited by hand or by a pass. Run `verify` after each pass to identify it, and
    print the lines around the node with `to_text`.
    """

    def __init__(self, message: str, *, rule: str = "", node: str | None = None) -> None:
        super().__init__(message)
        self.rule, self.node = rule, node


class GraphSyntaxError(GraphwrightError):
    """The text form of a graph could not be parsed.

    `line` and `column` (both from 1) say where; the message shows that line. Without the closing
    `end` the file is truncated. Compare with the output of `to_text`, or write the graph again.
    """

    def __init__(self, message: str, *, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line, self.column = line, column


class GraphFormatError(GraphwrightError):
    """The JSON form of a graph is damaged, is not a graph, or has an unknown schema version.

    The message gives the place inside the document (`nodes[3].outputs[0].type`). If the file is
    damaged, save the graph again from the model. A newer schema version needs a newer Graphwright.
    """


class GraphFileError(GraphwrightError):
    """A file could not be read or written: missing, no permission, disk full, unknown suffix.

    A failed write leaves the previous file, if any, unchanged. Check the path and its folder; the
    name of a graph file must end in `.json` or `.json.gz`.
    """


class UnknownModel(GraphwrightError):
    """The zoo has no model of that name.

    Names are fixed ("vgg16") or contain numbers ("wresnet-152-10", "rnn-8-8k"). The message lists
    the closest ones, `zoo.names()` all of them. Name a model of your own `file.py:function`.
    """


class UnknownPass(GraphwrightError):
    """A graph pass has no such name or option.

    A plan and a saved graph name the passes that made them; a pass of your own has to be imported
    before such a file is used. The message lists the passes that there are.
    """


class InvalidWorkload(GraphwrightError):
    """A zoo model was requested with an invalid batch size or device.

    The batch size is an integer of at least 1, the device a PyTorch one: "meta", "cpu", "cuda:0".
    """


class DescriptionError(GraphwrightError):
    """An operator description is invalid: wrong arity, unknown extent, bad index.

    The message names the operator and the index. If a reduced index never indexes a tensor dim by
    itself, give its extent with ``over=``. The output lambda takes one argument per output dim.
    """


class NonAffineIndex(DescriptionError):
    """An index expression multiplies or divides by an index variable, so its range is unknown.

    The indices involved have no split, with this message as the reason; the others split as usual.
    An index may be multiplied by strides, sizes and attributes, but not by another index.
    """


class UnknownOperator(GraphwrightError):
    """The operator has no description.

    In a graph such an operator is opaque: it runs whole on every device, and capture reports it.
    Use the full name of an overload: ``aten.add.Tensor``. ``graphwright describe --list`` lists
    all described operators; add one with ``@graphwright.describe("namespace.name")``.
    """


class MisalignedSplit(GraphwrightError):
    """The operator cannot be cut at these positions, or not into this many parts.

    Reshapes and grouped operators split only at multiples of their quantum (the size of a head, the
    channels of a group). `Split.parts` chooses balanced, aligned cuts.
    """


class WrongDescription(GraphwrightError):
    """A description disagrees with the kernel, in its values or in one of its splits.

    The message contains a call that shows it; see also ``graphwright describe OPERATOR``.
    """


class ReplayError(GraphwrightError):
    """A graph could not be run: an input is missing or mistyped, or PyTorch lacks an operator.

    ``capture.bind`` makes the inputs of a captured graph from model, batch and optimizer.
    """


class InvalidModelName(GraphwrightError):
    """The model is neither a zoo model nor ``file.py:function``, or the file failed.

    The function takes no arguments and returns (model, loss_fn, batch), (model, loss_fn, batch,
    optimizer class) or a ``graphwright.zoo.Workload``. The message shows exceptions of the file.
    """


class InvalidCall(GraphwrightError):
    """An operator was called with a missing, unknown or unsuitable tensor or attribute.

    The message names the argument and shows the operator's schema. Attributes with a default and
    trailing optional tensors may be omitted; tensors follow the order of PyTorch's schema.
    """
