"""Keep apart the dims that PyTorch merges to call its kernels, so that each of them can be split.

A linear layer on `[batch, time, features]` reaches its kernel as a matrix product on `[batch * time, features]`;
attention multiplies `[batch * heads, ...]`. A range of such a merged dim is a range of its outermost part, so that
nothing inside it can be split. This pass takes a finished tape and moves each merging view behind its readers,
where it mostly meets the view that undoes it:

    view [5, 3, 8] -> [15, 8]     mm -> [15, 4]     add -> [15, 4]     view -> [5, 3, 4]
    matmul [5, 3, 4]              add [5, 3, 4]

A merged value `v` has a `Form`: the value `fine` that holds the same elements in finer dims, and the sizes of its
dims in groups, one group for each dim of `v`:

    v: [15, 8]      fine: [5, 3, 8]      sizes: ((5, 3), (8,))

A rule (see `unmerge_rules`) writes an operator on the fine values of its inputs. The operator's own result becomes a
view of the fine one: readers without a rule read it, and `assemble` drops it where there are none. Where a view
gives a value its fine shape, it is that value and vanishes. A view that both merges and splits is a view to the
common refinement of both shapes, merged: [3, 8] -> [6, 4] is [3, 2, 4] with the sizes ((3, 2), (4,)).

The same elements are multiplied and added, in another order at most: values are equal up to rounding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from graphwright.capture.record.assemble import Results
from graphwright.capture.record.tape import Entry, Tape, Value, living
from graphwright.describe import Types, find, properties
from graphwright.ir import Attr, Phase, TensorType

Sizes = tuple[tuple[int, ...], ...]
"""For each dim of a value, the sizes of the dims that it merges."""

Rule = Callable[["Unmerging", Entry], bool]
"""Writes an entry on fine values; False where there is nothing to gain, and the entry stays."""


@dataclass(frozen=True, slots=True)
class Form:
    """A value's elements in finer dims."""

    fine: Value
    sizes: Sizes


def flat(sizes: Iterable[Iterable[int]]) -> tuple[int, ...]:
    """The shape that groups of sizes make one after the other."""
    return tuple(n for group in sizes for n in group)


def start(sizes: Sizes, dim: int) -> int:
    """The first fine dim of a merged one."""
    return len(flat(sizes[:dim]))


def merges(group: tuple[int, ...]) -> bool:
    """Whether a dim is made of two or more that could be split."""
    return sum(n > 1 for n in group) > 1


def refinement(source: Sequence[int], target: Sequence[int]) -> Sizes | None:
    """The finest dims of a view in groups, one for each dim of `target`; None where the two do not fit.

    [5, 3, 8] seen as [15, 2, 4] is ((5, 3), (2,), (4,)). Dims of size 1 are kept where `source` has them.
    """
    sizes: list[list[int]] = []
    left = list(reversed(source))
    for size in target:
        group: list[int] = []
        if size == 1 and left and left[-1] == 1:
            group.append(left.pop())
        while size > 1:
            if not left:
                return None
            n = left.pop()
            if size % n == 0:
                group.append(n)
                size //= n
            elif n % size == 0:
                group.append(size)
                left.append(n // size)
                size = 1
            else:
                return None
        sizes.append(group)
    if left and not sizes:
        return None
    sizes[-1:] = [sizes[-1] + left[::-1]] if sizes else []
    return tuple(map(tuple, sizes))


def unmerge(tape: Tape, results: Results, rules: Mapping[str, Rule], otherwise: Rule) -> None:
    """Write the tape anew without merged dims, and give the results their new values.

    `rules` are those of operators by name; `otherwise` is tried for all others that read a merged value.
    """
    Unmerging(tape, results).run(rules, otherwise)


class Unmerging:
    """One pass over a tape. `same` maps a view that vanished to the value that it shows."""

    def __init__(self, tape: Tape, results: Results) -> None:
        self.tape, self.results = tape, results
        self.entries: list[Entry] = []
        self.forms: dict[Value, Form] = {}
        self.same: dict[Value, Value] = {}
        self.transposed: dict[Value, Value] = {}
        self.readers: dict[Value, list[Entry]] = {}
        self.kept = Counter(results.values())
        self._instead: dict[
            Entry, Entry
        ] = {}  # what computes now, for each entry that became a view
        self._computed: dict[Value, Value] = {}  # the fine result of an operator, by its merged one
        self._stands_for: dict[Value, Value] = {}  # a merged value in the dims that its readers see
        self._shaped: dict[tuple[Value, tuple[int, ...]], Value] = {}
        self._living = set(living(tape, results.values()))
        for entry in self._living:
            for value in {*entry.inputs} - {None}:
                self.readers.setdefault(value, []).append(entry)  # type: ignore[arg-type]

    def run(self, rules: Mapping[str, Rule], otherwise: Rule) -> None:
        """Apply the rules in program order."""
        for entry in self.tape.entries:
            entry.inputs = tuple(None if v is None else self.same.get(v, v) for v in entry.inputs)
            rule = rules.get(entry.op)
            if rule is None and any(v in self.forms for v in entry.inputs):
                rule = otherwise
            able = not (entry.random or entry.phase is Phase.UPDATE or len(entry.outputs) > 1)
            if not (able and rule is not None and rule(self, entry)):
                self.entries.append(entry)
        self._settle()

    # What rules ask for.

    def sizes(self, value: Value) -> Sizes:
        """A value's dims in groups."""
        form = self.forms.get(value)
        return tuple((n,) for n in value.type.shape) if form is None else form.sizes

    def shaped(self, value: Value, sizes: Sizes, reader: Entry) -> Value:
        """The value with the dims that `sizes` name, by a view if it has none such yet."""
        shape = flat(sizes)
        if shape == value.type.shape:
            return value
        form = self.forms.get(value)
        fine = value if form is None else form.fine
        if fine.type.shape == shape:
            return fine
        if self.is_uniform(value):
            made = self._made_anew(value, shape, reader)
            made.role, made.of = value.role, value.of
            self.forms[value] = Form(made, sizes)
            self._computed[value] = made
            return made
        made = self.view(fine, shape, value.producer, reader)
        if made is self.entries[-1].outputs[0]:
            self._stands_for[value] = made
            if self.entries[-1].phase is reader.phase:
                made.role, made.of = value.role, value.of
        return made

    def view(self, fine: Value, shape: tuple[int, ...], like: Entry | None, reader: Entry) -> Value:
        """A view of a value; it belongs where `like` does, if that is in the reader's phase."""
        source = root(fine)
        if source.type.shape == shape:
            return source
        key = (source, shape)
        if key not in self._shaped:
            place = like if like is not None and like.phase is reader.phase else reader
            self._shaped[key] = self._add(
                place, "aten.view", (source,), {"size": shape}, fine.type.dtype
            )
        return self._shaped[key]

    def is_uniform(self, value: Value) -> bool:
        """Whether a value is one number everywhere by its making, so that it can be made anew with any shape."""
        entry = value.producer
        if entry is None or value.type.numel == 1 or len(entry.outputs) > 1 or entry.random:
            return False
        if entry.op == "aten.expand":
            return all(v is not None and _is_number(v) for v in entry.inputs)
        if entry.op not in ("aten.full", "aten.view") and not is_elementwise(entry):
            return False
        return all(v is None or _is_number(v) or self.is_uniform(v) for v in entry.inputs)

    def _made_anew(self, value: Value, shape: tuple[int, ...], reader: Entry) -> Value:
        """A uniform value of another shape."""
        entry = value.producer
        assert entry is not None
        if entry.op == "aten.view":
            assert entry.inputs[0] is not None
            return self._made_anew(entry.inputs[0], shape, reader)
        inputs = [
            v if v is None or _is_number(v) else self._made_anew(v, shape, reader)
            for v in entry.inputs
        ]
        key = (value, shape)
        if key not in self._shaped:
            place = entry if entry.phase is reader.phase else reader
            attrs = {**entry.attrs, "size": shape} if "size" in entry.attrs else entry.attrs
            self._shaped[key] = self._add(
                place, entry.op, inputs, attrs, value.type.dtype, shape=shape
            )
        return self._shaped[key]

    def write(
        self,
        entry: Entry,
        op: str,
        inputs: Sequence[Value | None],
        attrs: Mapping[str, Attr],
        sizes: Sizes,
    ) -> bool:
        """Write an entry on fine values; `sizes` are the dims of its result. Always True, for rules to return."""
        (value,) = entry.outputs
        if flat(sizes) == value.type.shape:
            entry.op, entry.inputs, entry.attrs = op, tuple(inputs), dict(attrs)
            self.entries.append(entry)
            return True
        fine = self._add(entry, op, inputs, attrs, value.type.dtype, shape=flat(sizes))
        fine.role, fine.of = value.role, value.of
        assert fine.producer is not None
        fine.producer.accumulates = entry.accumulates
        self._instead[entry] = fine.producer
        self._computed[value] = fine
        self.show(entry, fine, sizes)
        return True

    def show(self, entry: Entry, fine: Value, sizes: Sizes) -> None:
        """Make an entry's result a view of a fine value, and remember its form."""
        (value,) = entry.outputs
        self.forms[value] = Form(fine, sizes)
        entry.op, entry.inputs, entry.attrs = "aten.view", (root(fine),), {"size": value.type.shape}
        entry.accumulates = False
        self.entries.append(entry)

    def refine(self, entry: Entry, fine: Value, sizes: Sizes) -> None:
        """Write a view that merges as one of `fine`, or of a view of it with the finer dims that `sizes` name."""
        num_entries = len(self.entries)
        finer = (
            self.view(fine, flat(sizes), entry, entry) if flat(sizes) != fine.type.shape else fine
        )
        if len(self.entries) > num_entries:
            self._computed[entry.outputs[0]] = finer
        self.show(entry, finer, sizes)

    def vanish(self, entry: Entry, merged: Value, fine: Value) -> None:
        """Let the result of a view be the fine value that it shows."""
        (value,) = entry.outputs
        self.same[value] = fine
        entry.index = -1
        if entry in self._living:
            self._inherit(entry, merged, fine)
        instead = fine.producer or (self.entries[-1] if self.entries else None)
        if instead is not None:
            self._instead[entry] = instead

    def _inherit(self, entry: Entry, merged: Value, fine: Value) -> None:
        """Let a fine value be the gradient of what the vanishing view of it was, and have its gradient."""
        (value,) = entry.outputs
        computed = self._computed.get(merged) is fine
        if computed and not self.kept[merged] and self.readers.get(merged, []) == [entry]:
            self._stands_for[value] = fine
        alike = fine.producer is not None and fine.producer.phase is entry.phase
        if value.of is not None and (computed or (alike and fine.of is None)):
            fine.role, fine.of = value.role, value.of

    def _add(
        self,
        place: Entry,
        op: str,
        inputs: Sequence[Value | None],
        attrs: Mapping[str, Attr],
        dtype: str,
        shape: tuple[int, ...] | None = None,
    ) -> Value:
        """Write one more entry, with the provenance of `place`."""
        size = attrs["size"] if shape is None else shape
        value = Value(TensorType(size, dtype))  # type: ignore[arg-type]
        value.producer = replace(
            place,
            op=op,
            inputs=tuple(inputs),
            attrs=dict(attrs),
            outputs=(value,),
            random=False,
            accumulates=False,
        )
        self.entries.append(value.producer)
        return value

    # The end.

    def _settle(self) -> None:
        """Number the entries anew and let all that points to vanished values and entries point to the new ones."""
        for index, entry in enumerate(self.entries):
            entry.index = index
            while entry.partner in self._instead:
                entry.partner = self._instead[entry.partner]
            for value in entry.outputs:
                value.of = None if value.of is None else self._of(value, value.of)
        self.tape.entries[:] = self.entries
        self.results.replace(self.same)

    def _of(self, value: Value, of: Value) -> Value | None:
        """Whose gradient a value is, now that what it was the gradient of may be gone."""
        for found in (self._computed.get(of), self._stands_for.get(of), of):
            if found is None or found in self.same:
                continue
            if found.type.shape == value.type.shape:
                return found
        return None


def root(value: Value) -> Value:
    """What a value is a view of: a view of a view is a view."""
    entry = value.producer
    if entry is not None and entry.op == "aten.view":
        assert entry.inputs[0] is not None
        return entry.inputs[0]
    return value


def _is_number(value: Value) -> bool:
    """Whether a value can stand beside tensors of any shape."""
    return value.type.numel == 1 and value.type.rank < 2


def is_elementwise(entry: Entry) -> bool:
    """Whether an operator does the same to every element, whatever the dims are."""
    description = find(entry.op)
    if description is None or description.restated:  # attributes that hold a shape
        return False
    types = Types(
        tuple(None if v is None else v.type for v in entry.inputs),
        tuple(v.type for v in entry.outputs),
    )
    return properties(entry.op, entry.attrs, types).elementwise
