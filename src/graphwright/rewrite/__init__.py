"""Graph passes: each takes a graph and returns one that computes the same."""

from graphwright.rewrite.optimize import (
    ALGORITHMS,
    ALPHA,
    Algorithm,
    ChannelsLast,
    Layouts,
    Price,
    Rewritten,
    Tell,
    cost_of,
    fixed_tensors,
    is_image,
    layouts_of,
    rewrite_graph,
)
from graphwright.rewrite.passes import (
    PASSES,
    Pass,
    apply_passes,
    graph_of_plan,
    read_pass,
    register,
)
from graphwright.rewrite.rejoin import rejoin
from graphwright.rewrite.training import Applied, Optimize, rules_of
from graphwright.rewrite.unmerge import Unmerge
