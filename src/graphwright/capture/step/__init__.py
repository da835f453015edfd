"""One step of a model, run on fake tensors and recorded: inputs, forward and backward, update."""

from graphwright.capture.step.clip import check_clip_norm
from graphwright.capture.step.micro import check_accumulation
from graphwright.capture.step.recording import LossFunction, Recording
from graphwright.capture.step.step import record_step
