"""What a graph is made of: edges of one type, the types, and the features of each."""

from graphwright.gnn.storage.compress import invert, row_starts, rows_of, sort_by_end
from graphwright.gnn.storage.errors import (
    CyclicGraph,
    DGLError,
    FeatureMismatch,
    InvalidFunction,
    InvalidIds,
    MissingFeature,
    UnknownType,
    ZeroInDegree,
)
from graphwright.gnn.storage.frame import (
    Column,
    Frame,
    Initializer,
    put_rows,
    take_rows,
    zero_initializer,
    zeros_like,
)
from graphwright.gnn.storage.ids import ID_TYPES, as_ids
from graphwright.gnn.storage.metagraph import EdgeType, Metagraph, Side
from graphwright.gnn.storage.numbering import number_in_order
from graphwright.gnn.storage.part import Halo, NotDistributable, PartRelation
from graphwright.gnn.storage.relation import FORMATS, Compressed, Relation, rows_from
