"""Paths and addresses of `keyspread run`: a path is on this machine, an address (s3a://…, dbfs:/…) is elsewhere."""

import os
import re

_LOCAL = re.compile(r"file:(?://(?=/))?(?=/)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # two letters at least: C:/ is a drive


def is_address(path: str) -> bool:
    """Tell whether a path names a file system that is not this machine's.

    >>> [is_address(path) for path in ("s3a://bucket/x", "dbfs:/x", "file:/x", "file:///x", "C:/x", "a:b", "x")]
    [True, True, False, False, False, False, False]
    """
    return _SCHEME.match(path) is not None and _LOCAL.match(path) is None


def local_path(path: str) -> str:
    """Return the absolute path of a path on this machine, with or without file:."""
    return os.path.abspath(_LOCAL.sub("", path, count=1))


def for_spark(path: str) -> str:
    """Return what Spark must be given, because its default file system may be another: an address as it is, or file://.

    >>> for_spark("/tmp/a b"), for_spark("hdfs:/x")
    ('file:///tmp/a b', 'hdfs:/x')
    """
    return path if is_address(path) else f"file://{local_path(path)}"
