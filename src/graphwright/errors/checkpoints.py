"""Checkpoints that cannot be written, read or used."""

from graphwright.errors.base import GraphwrightError


class CheckpointError(GraphwrightError):
    """Base class of all errors in saving and loading checkpoints."""


class CheckpointNotSaved(CheckpointError):
    """A checkpoint could not be saved: disk full, no permission, no shared folder, a dead process.

    No part of it is visible, and the previous checkpoint is intact: `former` is its path, or None.
    Free some space, or choose another folder that all processes can write to, and save again.
    """

    def __init__(self, message: str, *, former: str | None = None) -> None:
        super().__init__(message)
        self.former = former


class InvalidCheckpoint(CheckpointError):
    """The folder is not a checkpoint, is damaged or incomplete, or has an unknown format version.

    A checkpoint is a folder with `graphwright.json` and one `.distcp` file per writing process:
    copy them all. ``latest(directory)`` returns the newest complete one. A newer format version
    needs a newer Graphwright. `partly_loaded`: some tensors have its values, others do not, so a
    step has to load another one before it goes on.
    """

    def __init__(self, message: str, *, partly_loaded: bool = False) -> None:
        super().__init__(message)
        self.partly_loaded = partly_loaded


class CheckpointMismatch(CheckpointError):
    """A checkpoint does not contain the tensors that the step needs. Nothing was loaded.

    `missing` are names that it lacks, `extra` names that the step does not have, `mismatched` names
    whose shape or dtype differs. Load it into the model and the optimizer that wrote it; the plan
    and the number of processes may differ.
    """

    def __init__(
        self,
        message: str,
        *,
        missing: tuple[str, ...] = (),
        extra: tuple[str, ...] = (),
        mismatched: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.missing, self.extra, self.mismatched = missing, extra, mismatched
