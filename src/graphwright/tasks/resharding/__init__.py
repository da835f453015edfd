"""From any sharding of a tensor to any other: the hops in between, the transfers they consist of,
and what they take.

reshard                        the cheapest hops, with what they take
  paths, tariff                the search over codes, and its prices of collectives; tables of
                               `partition` use them as well
  pricing, fetching, traffic   the exact price of a hop: regions, messages, bytes on links
  staging                      memory for copies meanwhile
"""

from graphwright.tasks.resharding import paths, states
from graphwright.tasks.resharding.fetching import Fetches, fetch
from graphwright.tasks.resharding.hops import Hop, PricedHop, Transfer, changed_axes
from graphwright.tasks.resharding.pricing import SENDS_PER_DEVICE, Pricer
from graphwright.tasks.resharding.reshard import Resharding, plain_path, reshard
from graphwright.tasks.resharding.staging import Order, staged_bytes
from graphwright.tasks.resharding.tariff import Tariff, tariff_of
from graphwright.tasks.resharding.traffic import groups_of, rings
