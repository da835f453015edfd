"""The least of time + weight * memory, by eliminating variables (OptCNN section 5)."""

from graphwright.partition.search.elimination.circuit import Domains, Operation, all_configurations
from graphwright.partition.search.elimination.fixing import choose_fixed, work_of
from graphwright.partition.search.elimination.order import Method
from graphwright.partition.search.elimination.weighted import (
    Least,
    Numbers,
    fixed_domains,
    improve_in_turns,
    least,
    sweep,
)
