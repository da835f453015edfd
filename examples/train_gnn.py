"""Train a graph attention network on a graph with communities, with DGL's interface.

    python examples/train_gnn.py

`import graphwright.gnn as dgl` is the only change to a program written for DGL; where the import cannot be changed,
`sys.modules["dgl"] = graphwright.gnn` before it does.
"""

import torch
from torch.nn import functional as F

import graphwright.gnn as dgl
import graphwright.gnn.function as fn
from graphwright.gnn.nn import GATConv

torch.manual_seed(0)
nodes, kinds = 300, 3
label = torch.arange(nodes) % kinds
near = (
    torch.randint(nodes // kinds, (nodes, 8)) * kinds + label[:, None]
)  # neighbours of the same kind
far = torch.randint(nodes, (nodes, 3))  # and of any
dst = torch.cat([near, far, torch.arange(nodes)[:, None]], 1)
g = dgl.graph((torch.arange(nodes).repeat_interleave(12), dst.reshape(-1)), num_nodes=nodes)
g.ndata["x"] = F.one_hot(label, kinds) + 1.5 * torch.randn(nodes, kinds)

layers = torch.nn.ModuleList([GATConv(kinds, 8, num_heads=4), GATConv(32, kinds, num_heads=1)])
optimizer = torch.optim.Adam(layers.parameters(), lr=0.02)
train = torch.rand(nodes) < 0.2
for epoch in range(41):
    hidden = F.elu(layers[0](g, g.ndata["x"])).flatten(1)
    scores = layers[1](g, hidden).flatten(1)
    loss = F.cross_entropy(scores[train], label[train])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 10 == 0:
        right = (scores.argmax(1) == label)[~train].float().mean()
        print(f"epoch {epoch:2}: loss {loss:.3f}, {right:.0%} of the other nodes right")
assert right > 0.8

# A function of one's own and the built-in of the same meaning give the same; the built-in stores no messages.
g.update_all(fn.copy_u("x", "m"), fn.mean("m", "built_in"))
g.update_all(lambda edges: {"m": edges.src["x"]}, lambda nodes: {"own": nodes.mailbox["m"].mean(1)})
torch.testing.assert_close(g.ndata["built_in"], g.ndata["own"])
print("a built-in pair and functions of one's own agree")
