"""The processes of a run: start them, let them find each other, agree, and end in bounded time."""

from graphwright.run.processes.agreement import alone_is_meant, rank_and_size, together
from graphwright.run.processes.launch import Launcher, launch
from graphwright.run.processes.notices import NOTICE, tell, telling_of_compiling, where
from graphwright.run.processes.ranks_alike import RATES, VALUES, check_alike, digest_of, is_due
from graphwright.run.processes.rendezvous import read_variables
from graphwright.run.processes.world import World, leave, world
