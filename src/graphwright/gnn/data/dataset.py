"""`DGLDataset`: what a dataset of your own derives from.

The raw files are in `raw_path`. `process` makes graphs of them; `save` keeps these in `save_path`,
`has_cache` says whether they are there, and `load` reads them the next time.
"""

from __future__ import annotations

from hashlib import sha1
from pathlib import Path
from typing import Any

from graphwright.gnn.data.errors import InvalidDataFile, MissingData
from graphwright.gnn.data.utils import get_download_dir


class DGLDataset:
    """Define `process`, `__getitem__`, `__len__`; and `save`, `load`, `has_cache` for a cache."""

    def __init__(
        self,
        name: str,
        url: str | None = None,
        raw_dir: str | None = None,
        save_dir: str | None = None,
        hash_key: tuple[Any, ...] = (),
        force_reload: bool = False,
        verbose: bool = False,
        transform: Any = None,
    ) -> None:
        self._name, self._url, self._verbose, self._transform = name, url, verbose, transform
        self._hash_key, self._force_reload = hash_key, force_reload
        self._hash = sha1(str(hash_key).encode(), usedforsecurity=False).hexdigest()[:8]
        self._raw_dir = get_download_dir() if raw_dir is None else str(raw_dir)
        self._save_dir = self._raw_dir if save_dir is None else str(save_dir)
        self._load()

    def download(self) -> None:
        """Bring the raw files to `raw_path`. Nothing is downloaded unless you define how."""
        if self._url is not None and not Path(self.raw_path).exists():
            raise MissingData(
                f"dataset '{self.name}' is not at {self.raw_path}, and nothing is downloaded here: "
                f"put the files of {self._url} there."
            )

    def process(self) -> None:
        """Make graphs of the raw files."""
        raise NotImplementedError(f"{type(self).__name__} has to define process")

    def save(self) -> None:
        """Keep the graphs in `save_path`; by default nothing is kept."""

    def load(self) -> None:
        """Read the graphs from `save_path`."""

    def has_cache(self) -> bool:
        """Whether `load` can be used; by default not."""
        return False

    def _load(self) -> None:
        if not self._force_reload and self.has_cache():
            try:
                self.load()
                self._tell("Done loading data from cached files.")
                return
            except (InvalidDataFile, OSError) as error:
                self._tell(f"Loading from cache failed, re-processing: {error}")
        self.download()
        self.process()
        self.save()
        self._tell("Done saving data into cached files.")

    def _tell(self, what: str) -> None:
        if self._verbose:
            print(what)

    @property
    def name(self) -> str:
        """The name of the dataset."""
        return self._name

    @property
    def url(self) -> str | None:
        """Where the raw files come from."""
        return self._url

    @property
    def raw_dir(self) -> str:
        """The folder that has the folders of raw files."""
        return self._raw_dir

    @property
    def raw_path(self) -> str:
        """The folder of this dataset's raw files."""
        return str(Path(self._raw_dir) / self._name)

    @property
    def save_dir(self) -> str:
        """The folder that has the folders of processed graphs."""
        return self._save_dir

    @property
    def save_path(self) -> str:
        """The folder of this dataset's processed graphs."""
        return str(Path(self._save_dir) / self._name)

    @property
    def verbose(self) -> bool:
        """Whether progress is printed."""
        return self._verbose

    @property
    def hash(self) -> str:
        """A digest of the dataset's parameters, for names of cached files."""
        return self._hash

    def _given(self, graph: Any) -> Any:
        """A graph as the user wants it: transformed."""
        return graph if self._transform is None else self._transform(graph)

    def __getitem__(self, idx: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has to define __getitem__")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} has to define __len__")

    def __repr__(self) -> str:
        return f'Dataset("{self.name}", num_graphs={len(self)}, save_path={self.save_path})'


class DGLBuiltinDataset(DGLDataset):
    """A dataset whose files are known; they have to be on this machine."""
