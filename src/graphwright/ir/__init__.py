"""The graph every stage speaks: immutable, content-hashed, verified; printed, saved, read back."""

from graphwright.files import read_whole, write_atomically
from graphwright.frozen import FrozenDict
from graphwright.ir.attrs import Attrs
from graphwright.ir.build import CONSTANT_OP, GraphBuilder
from graphwright.ir.bulk import collection_paused
from graphwright.ir.edit import Edit
from graphwright.ir.forms import (
    SCHEMA_VERSION,
    from_json,
    load,
    parse_text,
    passes_from_json,
    passes_to_json,
    save,
    to_json,
    to_text,
)
from graphwright.ir.graph import UNMERGED, Graph, PassRecord
from graphwright.ir.hashing import region_between
from graphwright.ir.node import Composite, Node, Tensor
from graphwright.ir.spelling import Attr
from graphwright.ir.stats import Summary, format_bytes, summarize
from graphwright.ir.types import (
    DTYPE_BYTES,
    INPUT_ROLES,
    PERSISTENT_ROLES,
    Phase,
    Role,
    TensorType,
    parse_type,
)
from graphwright.ir.verify import verify
