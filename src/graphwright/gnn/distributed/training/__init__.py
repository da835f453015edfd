"""Full-graph training on several workers, each with a range of vertices (ROC)."""

from graphwright.gnn.distributed.training.distribute import (
    Trained,
    distribute,
    distribute_made,
    predict,
)
from graphwright.gnn.distributed.training.part import PartGraph, cut_part
from graphwright.gnn.distributed.training.sampled import SampledTrainer, Sampling
from graphwright.gnn.distributed.training.store import GraphStore
from graphwright.gnn.distributed.training.trainer import InvalidTraining, Problem, Trainer, adam
from graphwright.gnn.distributed.training.worker import Epoch
