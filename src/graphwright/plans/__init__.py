"""The data between the stages: meshes, shardings, strategies, plans and task graphs. No behaviour beyond their own consistency."""

from graphwright.plans.mesh import Mesh, device_array, part_numbers, whole_mesh
from graphwright.plans.plan import Plan
from graphwright.plans.sharding import (
    Partial,
    Pieces,
    Placement,
    Replicated,
    Sharding,
    Split,
    boxes,
    check_sharding,
    even_cuts,
    even_pieces,
    local_bytes,
    parse_placement,
    replicated,
)
from graphwright.plans.strategy import (
    Along,
    Choice,
    Keep,
    Replicate,
    Strategy,
    on_one,
    parse_choice,
)
from graphwright.plans.taskgraph import CATEGORIES, KINDS, TaskGraph, Values

__all__ = [
    "CATEGORIES",
    "KINDS",
    "Along",
    "Choice",
    "Keep",
    "Mesh",
    "Partial",
    "Pieces",
    "Placement",
    "Plan",
    "Replicate",
    "Replicated",
    "Sharding",
    "Split",
    "Strategy",
    "TaskGraph",
    "Values",
    "boxes",
    "check_sharding",
    "device_array",
    "even_cuts",
    "even_pieces",
    "local_bytes",
    "on_one",
    "parse_choice",
    "parse_placement",
    "part_numbers",
    "replicated",
    "whole_mesh",
]
