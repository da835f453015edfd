"""The processes of a run: start them, let them find each other, agree, and end in bounded time."""

from graphwright.run.processes.agreement import (
    RATES,
    VALUES,
    check_ranks_agree,
    digest_tensors,
    gather_results,
    is_check_due,
    rank_and_size,
    without_group_warning,
)
from graphwright.run.processes.launch import Launcher, check_workers, launch
from graphwright.run.processes.lost import RankLost, naming_lost_ranks, watching_connections
from graphwright.run.processes.notices import notice_of_compiling
from graphwright.run.processes.peers import refuse_strangers
from graphwright.run.processes.rendezvous import read_variables
from graphwright.run.processes.world import World, leave, world
