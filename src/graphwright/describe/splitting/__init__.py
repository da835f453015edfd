"""From a description to splits: symbolic analysis, splits of one call, tilings by several."""

from graphwright.describe.splitting.scatter import Mask
from graphwright.describe.splitting.splits import (
    Part,
    Region,
    Slice,
    Split,
    local_types,
    refusals,
    splits,
    splits_of,
)
from graphwright.describe.splitting.symbolic_split import Combine, Concat, Join, Refusal, Same
from graphwright.describe.splitting.tiling import PartCall, Regions, Tiling, Ways, tile
