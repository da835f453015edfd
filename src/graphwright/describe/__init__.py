"""Describe an operator once, in a few lines; derive everything else from the text (Tofu section 4).

The package can be called like the decorator of the same name: ``@graphwright.describe("mine.op")``.
"""

import inspect
import sys
from collections.abc import Callable
from types import ModuleType

from graphwright.describe.cost import Cost, cost
from graphwright.describe.facts import (
    Properties,
    is_described,
    node_splits,
    properties,
    types_of,
)
from graphwright.describe.language import random
from graphwright.describe.properties import linear_sets
from graphwright.describe.reference import reference, reference_of
from graphwright.describe.registry import (
    Description,
    describe,
    descriptions,
    find,
    make_description,
    require,
    undescribed,
)
from graphwright.describe.scalar import REDUCERS, Array, define_reducer
from graphwright.describe.scatter import Mask
from graphwright.describe.soap import Soap, sample_dims, soap, soap_of_call
from graphwright.describe.splits import Part, Region, Slice, Split, refusals, splits, splits_of
from graphwright.describe.symbolic_split import Combine, Concat, Join, Refusal, Same
from graphwright.describe.tiling import PartCall, Regions, Tiling, Ways, tile
from graphwright.describe.trace import Trace, Types, trace

__signature__ = inspect.signature(describe)
__doc__ = f"{__doc__}\ndescribe{__signature__}\n\n{inspect.getdoc(describe)}\n"


class _CallableModule(ModuleType):
    def __call__(
        self, *ops: str, **restated: Callable[..., object]
    ) -> Callable[[Callable[..., object]], Callable[..., object]]:
        return describe(*ops, **restated)


sys.modules[__name__].__class__ = _CallableModule
