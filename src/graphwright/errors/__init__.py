"""All exceptions that Graphwright raises. A class's docstring is its help page.

A help page says what happened and what to try. A message names the place (an operator, a tensor,
a source line, a file), the values and the next step.
"""

from graphwright.errors.base import (
    GraphwrightError,
)
from graphwright.errors.capture import (
    CaptureError,
    ComplexInput,
    DataDependentControlFlow,
    DynamicShapeOperator,
    GraphBreak,
    InvalidAccumulation,
    InvalidAutocast,
    InvalidBatch,
    InvalidClipping,
    InvalidLossFunction,
    MismatchedTypes,
    ModelFailed,
    MutatedGlobal,
    NoTrainingStep,
    UnsupportedModel,
    UnsupportedOptimizer,
)
from graphwright.errors.checkpoints import (
    CheckpointError,
    CheckpointMismatch,
    CheckpointNotSaved,
    InvalidCheckpoint,
)
from graphwright.errors.graphs import (
    DescriptionError,
    GraphFileError,
    GraphFormatError,
    GraphSyntaxError,
    InvalidCall,
    InvalidGraph,
    InvalidModelName,
    InvalidWorkload,
    MisalignedSplit,
    NonAffineIndex,
    ReplayError,
    UnknownModel,
    UnknownOperator,
    UnknownPass,
    WrongDescription,
)
from graphwright.errors.machines import (
    ClusterFileError,
    InvalidCluster,
    InvalidMeasurement,
    MeasuredTableError,
    StoreError,
    StoreVersionMismatch,
    UnknownCluster,
)
from graphwright.errors.planning import (
    DoesNotFit,
    InvalidLimit,
    InvalidMemoryPlan,
    InvalidOption,
    InvalidProgram,
    InvalidStrategy,
    InvalidTaskGraph,
    MemoryTooSmall,
    NothingFound,
    PlanFormatError,
    PlanMismatch,
    UnknownDevice,
)
from graphwright.errors.running import (
    AddressInUse,
    BatchMismatch,
    InvalidLaunch,
    InvalidLoader,
    InvalidShard,
    InvalidWorld,
    ModelChanged,
    NoInitialValue,
    NotSendable,
    RanksDiffer,
    StepLost,
    StepNotBegun,
    WorkerFailed,
    WorkersMissing,
    WorkerTimedOut,
)


def error_type(name: str) -> type[GraphwrightError]:
    """The exception of that name, the base class where there is none."""
    kind = globals().get(name)
    if isinstance(kind, type) and issubclass(kind, GraphwrightError):
        return kind
    return GraphwrightError
