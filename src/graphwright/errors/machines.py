"""Clusters, devices and what was measured on them."""

from graphwright.errors.base import GraphwrightError


class InvalidCluster(GraphwrightError):
    """A cluster's figures are missing, impossible or unknown.

    The message names the file, the table, the key and the value. Bandwidths are in bytes per second
    ("450GB/s") or bits per second ("100Gb/s"), sizes in bytes ("80GB", "16GiB"), times in seconds
    ("4us"), rates in operations per second ("67T"). To start from a similar preset, write it to a
    file and edit that: ``graphwright.machine.save(cluster("dgx-h100"), "mine.toml")``.
    """


class UnknownCluster(GraphwrightError):
    """The name is neither a preset nor a TOML file.

    The message lists the presets and the closest one. "dgx-h100:4" is four times the outermost
    level, "local:4" four processes on this machine; a path must lead to a TOML file.
    """


class ClusterFileError(GraphwrightError):
    """A cluster file could not be read or written: missing, no permission, disk full.

    A failed write leaves the previous file, if any, unchanged. Check the path and its folder.
    """


class StoreError(GraphwrightError):
    """The store of measured costs is unusable: not a store, not writable, damaged, or locked.

    The message gives its path. Set ``GRAPHWRIGHT_COSTS`` to the path of another store. If the store
    is damaged, you can delete it and measure again.
    """


class MeasuredTableError(StoreError):
    """A table of measured times, as a preset ships it, cannot be read or written.

    The message names the table and the field or row. ``graphwright calibrate ... -o
    NAME.measured.json`` writes one from the store of measured costs; `graphwright.machine.measured`
    shows its form.
    """


class StoreVersionMismatch(StoreError):
    """The store of measured costs has the format of another version of Graphwright.

    Stores are not converted between versions. Use the version that wrote it, set
    ``GRAPHWRIGHT_COSTS`` to a new path, or delete the file and measure again.
    """


class InvalidMeasurement(GraphwrightError):
    """A measurement is impossible: a time of 0, a size that is no power of 2, an unknown device.

    Times are positive and in seconds. Collectives are measured at sizes of 1, 2, 4, 8, ... bytes,
    with one span for every level of the cluster. Calibration runs on the devices of this machine:
    "cpu", "local:4" (one of four processes), "cuda" or "cuda:1".
    """
