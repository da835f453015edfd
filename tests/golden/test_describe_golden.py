"""What follows from each description, for its example call: splits, joins, quanta, linearity, operations."""

from graphwright.describe import cost, descriptions, properties, splits
from graphwright.report.tables.operator import example


def test_everything_derived(golden):
    lines: list[str] = []
    for description in descriptions():
        if description.op.startswith("array."):  # theirs, if arrays were imported before
            continue
        attrs, types = example(description.op)
        found = properties(description.op, attrs, types)
        kinds = [
            *(["element-wise"] if found.elementwise else []),
            *(["view"] if found.view else []),
            *(["random"] if found.random else []),
            *(f"opaque {name}" for name in found.opaque),
            *(f"linear in {sorted(group)}" for group in found.linear),
        ]
        inputs = ", ".join("absent" if t is None else str(t) for t in types.inputs)
        operations = cost(description.op, attrs, types).operations
        lines.append(
            f"{description.op}({inputs}): {'; '.join(kinds) or 'general'}; {operations} operations"
        )
        for split in splits(description.op, attrs, types):
            quantum = f" by {split.quantum}" if split.quantum > 1 else ""
            lines.append(f"    {split}; {split.extent}{quantum}")
    golden("describe/derived.txt", "\n".join(lines) + "\n")
