"""What may be chosen: the strategies of operators, the groups that are split alike, and their
configurations."""

from graphwright.partition.space.coarsen import Coarse, Group, Weight, coarsen, signature
from graphwright.partition.space.configurations import Configurations, add_plans, configure
from graphwright.partition.space.flows import Flow, Flows, Given, find_flows
from graphwright.partition.space.group_choices import GroupChoices, find_group_choices, typical
from graphwright.partition.space.options import (
    PARTIAL,
    REPLICATED,
    Codes,
    Options,
    can_tile,
    distinct_rows,
    num_parts,
    options,
    to_sharding,
    ways_of,
)
from graphwright.partition.space.strategies import (
    Space,
    random_plan,
    random_strategy,
    valid_strategy,
)
