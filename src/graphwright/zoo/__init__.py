"""The models of the papers, as plain `torch.nn` modules with published and small configurations.

    workload = zoo.load("wresnet-152-10")                 # on the meta device: nothing is allocated
    workload = zoo.load("bert-base", small=True, device="cpu")
    loss = workload.loss_fn(workload.model(inputs), targets)

Names contain numbers as in the papers: wresnet-<depth>-<width>, rnn-<layers>-<hidden>, ...
"""

from graphwright.zoo.registry import dlrm, entries, entry, gpt, load, names
from graphwright.zoo.workload import Entry, Workload
