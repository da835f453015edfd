"""What is copied between a device and its host, and what could be spared (ROC, section 4.5)."""

from graphwright.memory.transfers.any_order import least_bytes_in
from graphwright.memory.transfers.baselines import keep_nothing, keep_recent, keep_soonest
from graphwright.memory.transfers.one_order import least_transfers
from graphwright.memory.transfers.replay import InvalidTransfers, Transfers, check_transfers
