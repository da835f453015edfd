"""Describe an operator in a few lines; derive everything else from that (Tofu section 4).

The package is callable as the decorator of the same name: ``@graphwright.describe("mine.op")``.
"""

import inspect
import sys
from collections.abc import Callable
from types import ModuleType

from graphwright.describe.arithmetic import KINDS, PRODUCTS, Arithmetic, Kind, arithmetic, widest
from graphwright.describe.cost import Cost, cost
from graphwright.describe.facts import (
    Lookup,
    Properties,
    is_described,
    is_random,
    lookups,
    node_splits,
    properties,
    types_of,
)
from graphwright.describe.iteration import Iteration, iteration
from graphwright.describe.language import (
    REDUCERS,
    Array,
    Description,
    Trace,
    Types,
    define_reducer,
    describe,
    descriptions,
    find,
    make_description,
    random,
    require,
    trace,
    undescribed,
)
from graphwright.describe.properties import linear_sets
from graphwright.describe.reference import (
    FLOATS,
    NumberSystem,
    evaluate_stacked,
    is_commutative,
    reference,
    reference_of,
)
from graphwright.describe.soap import Soap, sample_dims, soap, soap_of_call
from graphwright.describe.splitting import (
    Combine,
    Concat,
    Join,
    Mask,
    Part,
    PartCall,
    Refusal,
    Region,
    Regions,
    Same,
    Slice,
    Split,
    Tiling,
    Ways,
    local_types,
    refusals,
    splits,
    splits_of,
    tile,
)

__signature__ = inspect.signature(describe)
__doc__ = f"{__doc__}\ndescribe{__signature__}\n\n{inspect.getdoc(describe)}\n"


class _CallableModule(ModuleType):
    def __call__(
        self, *ops: str, **restated: Callable[..., object]
    ) -> Callable[[Callable[..., object]], Callable[..., object]]:
        return describe(*ops, **restated)


sys.modules[__name__].__class__ = _CallableModule
