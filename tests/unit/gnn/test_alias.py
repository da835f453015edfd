"""`sys.modules["dgl"] = graphwright.gnn` is all that code written for DGL needs."""

import subprocess
import sys

PROGRAM = """
import sys
import graphwright.gnn
sys.modules["dgl"] = graphwright.gnn

import dgl
import dgl.function as fn
from dgl import DGLGraph
from dgl.ops import edge_softmax
from dgl.nn import GraphConv
from dgl.nn.pytorch import GATConv
from dgl.nn.functional import edge_softmax as same_softmax
import dgl.nn.pytorch as dglnn
assert dglnn.GraphConv is GraphConv and same_softmax is edge_softmax
import graphwright.gnn.function
assert dgl is graphwright.gnn and fn is graphwright.gnn.function
assert isinstance(fn.copy_u("h", "m"), graphwright.gnn.function.MessageFunction)
assert fn.__spec__.name == fn.__name__ == "graphwright.gnn.function"
try:
    import dgl.nonsense
except ModuleNotFoundError as error:
    assert "dgl.nonsense" in str(error)
print("same")
"""


def test_modules_under_an_alias_are_the_same_modules():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.stdout == "same\n", done.stderr
