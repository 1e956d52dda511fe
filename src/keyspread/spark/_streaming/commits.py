"""Commits of `Totals`: which folders of partial states count. This file has no engine; it is the whole protocol.

    folder/slot-3/parts-000000000041-1f…   partial states of batch 41, written by Spark under a name of their own
    folder/slot-3/parts-until-000000000039-c0…   those of all batches up to 39, merged
    folder/slot-3/commits/part-….txt       one line of JSON per file: this batch is in that folder, with so many rows

**What counts.** A folder counts from the moment a commit names it. Of all commits of a batch exactly one counts, and a
merge replaces the batches up to its own. A commit has the number of rows of its folder, so a reader notices a folder
that is visible only in part. Spark numbers the batches of a query 0, 1, 2, …, so readers and writers notice if the
commit of one is missing, or if a query goes on whose first batches are not here. In all these cases they raise.

**Order.** A batch: (1) write the parts, (2) write the commit. A merge, after every `merge_every` batches: (1) read all
commits, (2) write the merged parts into the next slot, (3) write the commit, (4) clear the slot before the last one.

**Slots.** Files are written through Spark, which deletes a folder only by overwriting it. So generation g (a merge and
the batches after it) lives in slot g mod 8, and a slot is cleared as a whole. Leftovers of crashes go with it.

| a crash or a kill | leaves | the next run |
|---|---|---|
| while parts are written | a folder that no commit names, whole or in part | writes a new one |
| while a commit is written | the commit, or nothing; Spark may publish it with a later one | a second commit of it |
| after a commit, before Spark knows | a committed batch | finds the batch and does nothing |
| while a slot is cleared | some files of merged batches | ignores them; they go with the next clearing |

**Readers** see all batches whose commit was written before they began. What they read is deleted by the second merge
after that, at the earliest; then their job fails, because files are missing.

**Two writers.** Two drivers of one query may both commit a batch: one of both counts, and they have the same rows. A
driver that was suspended for five merges or less does no harm when it wakes up, whatever it was about to do. Two
queries in one folder are refused, by both and by every reader.

**What we need from storage.** A file appears as a whole or not at all, and a listing shows every file that was written
before. Local disks, HDFS and object stores do this. `_SUCCESS`, atomic renames of folders and locks are not needed.
"""

import json
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from keyspread.errors import InputError
from keyspread.spark._streaming.blobs import difference

SLOTS = 8
_FORMAT = 1
_NONE = -1  # the number before the first batch
_REMEDY = "restore the folder, or start the query with a new folder and a new checkpoint"


class Storage(Protocol):
    """What commits are written to and read from."""

    @property
    def address(self) -> str:
        """What error messages call it."""

    def lines(self) -> list[str]:
        """Return all commits of all slots."""

    def append(self, slot: int, line: str) -> None:
        """Write a commit."""

    def clear(self, slot: int) -> None:
        """Delete everything in a slot."""


@dataclass(frozen=True)
class Commit:
    """One folder of partial states: those of a batch, or (`merged`) of all batches up to it."""

    batch: int
    merged: bool
    generation: int
    folder: str
    rows: int
    identity: dict[str, Any]
    content: str | None = None
    """A fingerprint of the rows of the (last) batch, if the query has no id to tell a retry from another query."""

    @property
    def slot(self) -> int:
        """The slot that holds the folder and the commit."""
        return self.generation % SLOTS

    def to_line(self) -> str:
        """Return it as one line of ASCII."""
        return json.dumps({"format": _FORMAT, **asdict(self)}, separators=(",", ":"))

    @classmethod
    def from_line(cls, line: str) -> "Commit":
        """Read a line; refuse one that is not whole, or of another version."""
        try:
            found = json.loads(line)
            version = found.pop("format")
        except (ValueError, AttributeError, KeyError, TypeError):
            raise InputError(f"a commit is damaged ({line[:60]!r})") from None
        if version != _FORMAT:
            raise InputError(f"they have format {version}, and this version of keyspread reads format {_FORMAT}")
        try:
            commit = cls(**found)
        except TypeError:
            raise InputError(f"a commit is damaged ({line[:60]!r})") from None
        if not commit._has_right_types():
            raise InputError(f"a commit is damaged ({line[:60]!r})")
        return commit

    def _has_right_types(self) -> bool:
        """Whether every value has its type, as far as it matters: somebody may have edited the file."""
        return (
            all(type(number) is int for number in (self.batch, self.generation, self.rows))
            and (type(self.merged), type(self.folder), type(self.identity)) == (bool, str, dict)
            and (self.content is None or isinstance(self.content, str))
        )


@dataclass(frozen=True)
class Committed:
    """What counts: the last merge, and one commit for each batch after it."""

    merge: Commit | None = None
    batches: dict[int, Commit] = field(default_factory=dict)

    @classmethod
    def of(cls, commits: Iterable[Commit]) -> "Committed":
        """Choose the commits that count; refuse commits of two queries, and batches without those before them."""
        # In this order, so that all readers choose the same if a batch was committed twice.
        found = sorted(commits, key=lambda one: (one.batch, one.folder))
        for one in found[1:]:
            if differs := difference(found[0].identity, one.identity):
                raise InputError(f"two queries have written here; {differs}")
        merges = {one.batch: one for one in reversed(found) if one.merged}
        merge = merges[max(merges)] if merges else None
        until = merge.batch if merge is not None else _NONE
        batches = {one.batch: one for one in reversed(found) if not one.merged and one.batch > until}
        missing = [batch for batch in range(until + 1, max(batches, default=until)) if batch not in batches]
        if missing:
            raise InputError(f"the commit of batch {missing[0]} is missing")
        return cls(merge, dict(sorted(batches.items())))

    @property
    def commits(self) -> list[Commit]:
        """All that count."""
        return [*([] if self.merge is None else [self.merge]), *self.batches.values()]

    @property
    def until(self) -> int:
        """The last batch that is merged; -1 if none is."""
        return _NONE if self.merge is None else self.merge.batch

    @property
    def last(self) -> int:
        """The last batch that is committed; -1 if none is."""
        return max(self.batches, default=self.until)

    @property
    def generation(self) -> int:
        """The number of the last merge; 0 if there was none."""
        return 0 if self.merge is None else self.merge.generation

    def has(self, batch: int) -> bool:
        """Tell whether a batch is committed."""
        return batch <= self.until or batch in self.batches

    @property
    def content(self) -> str | None:
        """The fingerprint of the last batch."""
        return max(self.commits, key=lambda one: one.batch).content if self.commits else None

    def next(self, batch: int, folder: str, rows: int, identity: dict[str, Any], content: str | None) -> Commit:
        """Make the commit of a further batch."""
        return Commit(batch, False, self.generation, folder, rows, identity, content)

    def next_merge(self, folder: str, rows: int, identity: dict[str, Any]) -> Commit:
        """Make the commit of a merge of all that counts."""
        return Commit(self.last, True, self.generation + 1, folder, rows, identity, self.content)

    def plus(self, commit: Commit) -> "Committed":
        """Return what counts after a further commit."""
        return Committed(commit) if commit.merged else Committed(self.merge, {**self.batches, commit.batch: commit})


WriteParts = Callable[[str], int]
"""Write the parts of a batch into a folder; return the number of rows."""
MergeParts = Callable[[Sequence[Commit], str], int]
"""Merge the parts of these commits into a folder; return the number of rows."""


class CommitLog:
    """The commits in a folder, as one writer sees them. Storage is passed to each call: it belongs to a session."""

    def __init__(self, merge_every: int) -> None:
        self._merge_every = merge_every
        self._known = Committed()

    def read(self, storage: Storage) -> Committed:
        """Return what counts now."""
        try:
            return Committed.of(map(Commit.from_line, storage.lines()))
        except InputError as problem:
            raise InputError(f"{storage.address}: these totals cannot be read: {problem}; {_REMEDY}") from None

    def add(
        self,
        storage: Storage,
        batch: int,
        identity: dict[str, Any],
        write: WriteParts,
        merge: MergeParts,
        content: str | None = None,
    ) -> None:
        """Write and commit a batch, unless it is committed already; merge if there are enough batches.

        Without the id of its query, a batch has a fingerprint of its `content`. Spark only retries the last batch, with
        the same rows: everything else comes from a query with another checkpoint.
        """
        identity = json.loads(json.dumps(identity))  # as it will be read
        committed = self._before(storage, batch, identity)
        if content is not None and (batch < committed.last or (committed.has(batch) and content != committed.content)):
            raise InputError(
                f"{storage.address}: batch {batch} was added before with other rows, or batches after it were: "
                "a query with a new checkpoint needs a new folder"
            )
        if committed.has(batch):
            return
        if batch > committed.last + 1:
            place = f"follow batch {committed.last} here" if committed.commits else "be the first one here"
            raise InputError(
                f"{storage.address}: batch {batch} would {place}, so rows would be missing: if the folder was deleted "
                "or has another address, restore it, or start the query with a new checkpoint; call Totals for every "
                "batch, empty ones too"
            )
        folder = _fresh(committed.generation, f"{batch:012d}")
        commit = committed.next(batch, folder, write(folder), identity, content)
        storage.append(commit.slot, commit.to_line())
        self._known = committed.plus(commit)
        if len(self._known.batches) >= self._merge_every:
            self._merge(storage, identity, merge)

    def _before(self, storage: Storage, batch: int, identity: dict[str, Any]) -> Committed:
        """Return what counts before a batch. Storage is read unless the batch follows the one that we committed."""
        known, self._known = self._known, Committed()  # a call that fails leaves nothing that we rely on
        if known.commits and batch == known.last + 1 and known.commits[0].identity == identity:
            return known
        found = self.read(storage)
        if found.commits and (differs := difference(found.commits[0].identity, identity)):
            raise InputError(f"{storage.address}: {differs}")
        return found

    def _merge(self, storage: Storage, identity: dict[str, Any], merge: MergeParts) -> None:
        known, self._known = self._known, Committed()
        found = self.read(storage)
        lost = [one.batch for one in known.commits if not found.has(one.batch)]
        if lost:
            raise InputError(f"{storage.address}: the commit of batch {lost[0]} has disappeared; {_REMEDY}")
        folder = _fresh(found.generation + 1, f"until-{found.last:012d}")
        commit = found.next_merge(folder, merge(found.commits, folder), identity)
        storage.append(commit.slot, commit.to_line())
        self._known = found.plus(commit)
        # Readers that began before this merge use the generation that it replaces, so the one before that goes, unless
        # a suspended driver has committed a batch there.
        old = (commit.generation - 2) % SLOTS
        if commit.generation >= 2 and all(one.slot != old for one in found.commits):
            storage.clear(old)


def _fresh(generation: int, name: str) -> str:
    return f"slot-{generation % SLOTS}/parts-{name}-{uuid.uuid4().hex}"
