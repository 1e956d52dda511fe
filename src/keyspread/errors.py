"""What keyspread raises. Every message names the thing, the value received and the remedy, in one line."""


class KeyspreadError(Exception):
    """Anything keyspread refuses to do."""


class InputError(KeyspreadError, ValueError):
    """A parameter, column or file is not what is needed; nothing was computed or written."""


class SnapshotError(InputError):
    """A snapshot that is damaged, foreign or of another version."""


class JavaMissingError(KeyspreadError):
    """No Java that Spark can run on; the message says where it was looked for and how to get one."""


class ExtraMissingError(KeyspreadError, ImportError):
    """A package that this part of keyspread needs is not installed; the message has the command for it."""
