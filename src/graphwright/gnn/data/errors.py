"""What can go wrong with files of graphs."""

from __future__ import annotations

from graphwright.gnn.storage import DGLError


class InvalidDataFile(DGLError):
    """A file of graphs or of a dataset is damaged, incomplete, or not of the form it should have.

    The message names the file, the place in it, and what is there. Nothing was read from it. If the
    file was made by `save_graphs`, save the graphs again; if it was downloaded, download it again.
    """


class MissingData(DGLError):
    """A dataset's files are not on this machine. Nothing is downloaded.

    The message names the folder in which the files are expected.
    """
