"""Prove that two graphs compute the same, see a wrong axiom refused, and apply a shipped rule.

Terms are written with parameters first: conv(stride, padding, activation, data, weight).
"""

from __future__ import annotations

from graphwright.rewrite.substitutions import WrongProperty, apply, matches, parse, shipped
from graphwright.rewrite.substitutions.properties import Property
from graphwright.rewrite.substitutions.prove import Prover
from graphwright.rewrite.substitutions.validate import require_valid

# Two convolutions of one tensor are one convolution, if they have no groups.
apart = parse("concat(1, conv(1, same, relu, x, v), conv(1, same, relu, x, w))")
joined = parse("conv(1, same, relu, x, concat(0, v, w))")
proof, guards = Prover().prove([apart], [joined])
print(
    f"{apart}\n  = {joined}\n  {proof.verdict} where {', '.join(map(str, guards))}\n  by {proof.axioms[0]}"
)

# An axiom is checked on small shapes before it is believed: as published, this one has no guard.
published = (
    "concat(1, conv(s, p, c, x, y), conv(s, p, c, x, z)) = conv(s, p, c, x, concat(0, y, z))"
)
try:
    require_valid(Property(published, "concat and conv"), bound=2)
except WrongProperty as error:
    print(f"\nWrongProperty: {error}")

# Shipped rules fuse two products that share an input.
graph = [parse("relu(matmul(x, a))"), parse("matmul(x, b)")]
for rule in shipped().rules:
    for match in matches(graph, rule.substitution):
        if len(match.places) == 2:
            print(f"\nrule {rule.number} makes of {', '.join(map(str, graph))}:")
            print("\n".join(f"  {output}" for output in apply(graph, match)))
