"""The exceptions of keyspread. Every message names the parameter, the value received and the remedy, in one line."""


class KeyspreadError(Exception):
    """Base class of all errors that keyspread raises on purpose."""


class InputError(KeyspreadError, ValueError):
    """A parameter, column or file cannot be used; nothing was computed or written."""


class SnapshotError(InputError):
    """Stored bytes are damaged, come from elsewhere, or have another version."""


class ThreadError(KeyspreadError, RuntimeError):
    """One object was changed by two threads at the same time; the message says what to do instead."""


class JavaMissingError(KeyspreadError):
    """There is no Java that Spark can run on; the message says where keyspread looked and how to get one."""


class ExtraMissingError(KeyspreadError, ImportError):
    """A package that this part of keyspread needs is not installed; the message has the command for it."""
