"""One thread at a time: compiled loops run without Python's lock, so two of them could change the same arrays."""

import threading
from types import TracebackType

from keyspread.errors import ThreadError


class OneThread:
    """Guards an object: `with guard:` around what changes it, `with guard.reading:` around what only reads it.

    A change by a second thread is refused: it could not be repeated, because the order would depend on the timing. A
    reader waits until the change is complete, and a change waits until nobody reads.

    >>> guard = OneThread("a Sender", "use one per thread")
    >>> with guard:
    ...     pass
    """

    def __init__(self, what: str, remedy: str) -> None:
        self.reading = threading.RLock()
        self._changing = threading.RLock()  # apart from `reading`: a reader is no reason to refuse a change
        self._what, self._remedy = what, remedy

    def __enter__(self) -> None:
        """Begin a change; raise if another thread is in the middle of one."""
        if not self._changing.acquire(blocking=False):
            raise ThreadError(f"{self._what} was used by two threads at the same time: {self._remedy}")
        self.reading.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the change."""
        self.reading.release()
        self._changing.release()
