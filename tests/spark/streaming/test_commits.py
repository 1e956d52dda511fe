"""The commit protocol of `Totals` on a fake storage with the weakest guarantees that it claims to need.

Crashes at any step, retries, suspended drivers, readers in between, a second query; against plain sums in Python.
"""

import json
import os
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest

pytest.importorskip("pyspark")

from hypothesis import given, settings
from hypothesis import strategies as st

from keyspread import InputError
from keyspread.spark._streaming.commits import SLOTS, Commit, CommitLog, Committed

SEEDS = st.integers(0, 2**48)
RUNS = int(os.environ.get("KEYSPREAD_TEST_RUNS", "100"))  # per test; a campaign sets more
ONE, OTHER = {"key": ["k"], "query": "one"}, {"key": ["k"], "query": "other"}


class Crash(Exception):  # noqa: N818  (not an error: the driver is killed here)
    """The driver dies at this step."""


class FakeStorage:
    """A fake: files appear whole, one after the other. Nothing else is atomic, and nothing is renamed.

    `at_step` is called before a file is written, listed, read or deleted. It may kill the driver, or let others run.
    """

    address = "fake"

    def __init__(self, dice):
        self.dice, self.files, self.unpublished = dice, {}, {}
        self.at_step = lambda: None

    def write(self, folder, states):
        """Write partial states as several files, with names of their own; a crash leaves some of them."""
        items = list(states.items())
        for number in range(0, len(items), 2):
            self.at_step()
            self.files[f"{folder}/part-{number}-{self.dice.random()}"] = dict(items[number : number + 2])
        return len(items)

    def states(self, commits):
        """Read partial states, as `TotalsFolder.states` does: raise unless all rows are there."""
        self.at_step()
        found = [
            (path, states)
            for one in commits
            for path, states in list(self.files.items())
            if path.startswith(one.folder + "/")
        ]
        if sum(len(states) for _, states in found) != sum(one.rows for one in commits):
            raise InputError("partial states are missing")
        total = Counter()
        for path, states in found:
            self.at_step()
            if path not in self.files:
                raise InputError("a file is missing")
            total.update(states)
        return total

    def append(self, slot, line):
        """Write a commit. A crash in the middle may leave it for the next job in the same folder to publish."""
        self.at_step()
        self.unpublished.setdefault(slot, []).append(line)
        self.at_step()
        for one in self.unpublished.pop(slot, []):
            self.files[f"slot-{slot}/commits/part-{len(self.files)}-{self.dice.random()}"] = one
        self.at_step()

    def clear(self, slot):
        """Delete the files of a slot in any order; a crash leaves some of them."""
        self.unpublished.pop(slot, None)
        paths = [path for path in self.files if path.startswith(f"slot-{slot}/")]
        for path in self.dice.sample(paths, len(paths)):
            self.at_step()
            self.files.pop(path, None)

    def lines(self):
        """List the slots one after the other, then read; begin again if a listed file was deleted."""
        for _ in range(5):
            listed = []
            for slot in range(SLOTS):
                self.at_step()
                listed += [path for path in self.files if path.startswith(f"slot-{slot}/commits/")]
            self.at_step()
            if all(path in self.files for path in listed):
                return [self.files[path] for path in listed]
        raise InputError("files were deleted again and again")


class World:
    """One query, its storage, and the plain answer: the rows of the batches that the query believes to be done."""

    def __init__(self, seed):
        self.dice = Random(seed)
        self.storage = FakeStorage(self.dice)
        self.merge_every = self.dice.choice([1, 2, 3, 5])
        self.rows = {}
        self.done = Counter()
        self.batch = 0
        self.log = CommitLog(self.merge_every)

    def add(self, log, batch, identity=ONE):
        """Run a batch, as `Totals` does."""
        rows = self.rows.setdefault(
            batch, Counter({key: 1 + self.dice.randrange(9) for key in self.dice.sample("abcdefg", 5)})
        )
        log.add(
            self.storage,
            batch,
            identity,
            lambda folder: self.storage.write(folder, rows),
            lambda commits, folder: self.storage.write(folder, self.storage.states(commits)),
        )

    def read(self):
        """Return the totals, as `Totals.read` does."""
        return self.storage.states(CommitLog(1).read(self.storage).commits)

    def next(self):
        """Do the next batch as the query's driver."""
        self.add(self.log, self.batch)
        self.done += self.rows[self.batch]
        self.batch += 1

    def interrupt(self, action, what, within=40):
        """Run an action, and `what` at one random step of it."""
        steps = self.dice.randrange(within)

        def at_step():
            nonlocal steps
            steps -= 1
            if steps == -1:
                self.storage.at_step = lambda: None
                try:
                    what()
                finally:
                    self.storage.at_step = at_step

        self.storage.at_step = at_step
        try:
            action()
        finally:
            self.storage.at_step = lambda: None


def die():
    """Kill the driver."""
    raise Crash


@settings(max_examples=RUNS)
@given(SEEDS)
def test_every_batch_counts_once_whatever_step_a_driver_dies_at(seed):
    world = World(seed)
    for _ in range(world.dice.randrange(5, 60)):
        before = Counter(world.done)
        while True:
            try:
                if world.dice.random() < 0.4:
                    world.interrupt(world.next, die)
                else:
                    world.next()
                break
            except Crash:
                # Whoever reads now sees the batch, or does not see it yet.
                assert world.read() in (before, before + world.rows[world.batch])
                if world.dice.random() < 0.7:  # a new driver; otherwise the query is restarted in the same one
                    world.log = CommitLog(world.merge_every)
        assert world.read() == world.done
        if world.dice.random() < 0.2:  # Spark may do the last batch again, and an older one is no problem either
            world.add(CommitLog(world.merge_every), world.dice.choice(list(world.rows)))
            assert world.read() == world.done
    # Three generations at most, and what a crash in each of the other slots has left.
    commits = [path for path in world.storage.files if "/commits/" in path]
    assert len(commits) <= SLOTS * (2 * world.merge_every + 4)


@settings(max_examples=RUNS)
@given(SEEDS)
def test_a_reader_sees_a_state_between_its_begin_and_its_end(seed):
    world = World(seed)
    for _ in range(world.dice.randrange(1, 30)):
        world.next()
    states = [Counter(world.done)]

    def meanwhile():
        for _ in range(world.dice.randint(0, world.merge_every)):  # more may delete what is being read
            world.next()
            states.append(Counter(world.done))

    def read():
        assert world.read() in states

    world.interrupt(read, meanwhile, within=60)


@settings(max_examples=RUNS)
@given(SEEDS)
def test_a_driver_that_wakes_up_after_five_merges_does_no_harm(seed):
    """A second driver resumes the query while the first is suspended at any step; then the first one goes on."""
    world = World(seed)
    for _ in range(world.dice.randrange(30)):
        world.next()
    suspended, world.log = world.log, CommitLog(world.merge_every)
    batch, further = world.batch, world.dice.randrange(5 * world.merge_every)

    def second():
        for _ in range(further):
            world.next()

    with suppress(InputError):  # if its files were deleted, it ends
        world.interrupt(lambda: world.add(suspended, batch), second)
    if world.batch == batch:  # it was never suspended, or before anything else was done
        world.next()
    assert world.read() == world.done
    for _ in range(world.dice.randrange(2 * world.merge_every)):
        world.next()
        assert world.read() == world.done


@settings(max_examples=RUNS)
@given(SEEDS)
def test_two_queries_are_refused_even_if_both_begin_at_the_same_moment(seed):
    world = World(seed)
    logs = CommitLog(100), CommitLog(100)
    refused = []

    def other():
        world.add(logs[1], 0, OTHER)

    try:
        world.interrupt(lambda: world.add(logs[0], 0, ONE), other, within=20)
    except InputError as problem:
        refused.append(str(problem))
    queries = {json.loads(line)["identity"]["query"] for line in world.storage.lines()}
    if len(queries) == 2:  # both found the folder empty
        with pytest.raises(InputError, match="fake: these totals cannot be read: two queries have written here"):
            world.read()
        for identity in (ONE, OTHER):
            with pytest.raises(InputError, match="two queries have written here"):
                world.add(CommitLog(100), 1, identity)
    else:
        loser = OTHER if queries == {"one"} else ONE
        with pytest.raises(InputError, match=r"fake: this belongs to another query \(query was .* and is now"):
            world.add(CommitLog(100), 0, loser)
        assert world.read() == world.rows[0]


@settings(max_examples=RUNS)
@given(SEEDS)
def test_a_file_that_disappears_or_is_cut_off_is_never_a_wrong_answer(seed):
    world = World(seed)
    for _ in range(world.dice.randrange(2, 30)):
        world.next()
    last = max(world.rows)
    path = world.dice.choice(sorted(world.storage.files))
    content = world.storage.files.pop(path)
    if isinstance(content, str) and world.dice.random() < 0.5:
        world.storage.files[path] = content[: world.dice.randrange(len(content))]
    try:
        found = world.read()
    except InputError:
        return
    # Nobody can know of the last commit if it is deleted; every other loss is noticed.
    assert found in (world.done, world.done - world.rows[last])


def test_a_reader_keeps_what_a_driver_that_was_left_behind_has_committed():
    """Its batch is in a slot that the next merge would clear; a reader that began before that merge still needs it."""
    world, late, ahead = World(1), CommitLog(9), CommitLog(1)
    world.add(late, 0)
    world.add(ahead, 1)  # merged: generation 1, until batch 1
    world.add(late, 1)  # it does not know of the merge …
    world.add(late, 2)  # … so this is still in slot 0, and it counts
    began = CommitLog(1).read(world.storage).commits
    assert [(one.batch, one.slot) for one in began] == [(1, 1), (2, 0)]
    world.add(ahead, 3)  # generation 2 replaces generation 1, and clears slot 0 if nothing in it counts
    assert world.storage.states(began) == world.rows[0] + world.rows[1] + world.rows[2]
    assert world.read() == sum(world.rows.values(), Counter())


def test_a_commit_that_storage_does_not_show_is_noticed_by_the_merge():
    world = World(1)
    world.log, world.storage.append = CommitLog(1), lambda slot, line: None
    with pytest.raises(InputError, match="fake: the commit of batch 0 has disappeared; restore the folder"):
        world.add(world.log, 0)


def test_without_the_id_of_a_query_only_the_last_batch_may_come_again():
    world = World(1)

    def add(batch, content):
        CommitLog(2).add(world.storage, batch, ONE, lambda _: 0, lambda commits, _: 0, content)

    for batch, content in ((0, "a"), (0, "a"), (1, "b"), (1, "b")):  # then both are merged
        add(batch, content)
    for batch, content in ((0, "a"), (0, "c"), (1, "c")):
        with pytest.raises(InputError, match=f"fake: batch {batch} was added before with other rows, or batches after"):
            add(batch, content)
    add(1, "b")
    add(2, "b")
    assert CommitLog(2).read(world.storage).last == 2


@pytest.mark.parametrize("done", [0, 3])
def test_a_batch_that_does_not_follow_is_refused_and_nothing_is_written(done):
    """The folder of a running query was deleted, mistyped, or restored from an old copy."""
    world = World(1)
    for _ in range(done):
        world.next()
    files, place = dict(world.storage.files), "follow batch 2" if done else "be the first one"
    message = f"fake: batch {done + 1} would {place} here, so rows would be missing: if the folder was deleted or has"
    for log in (world.log, CommitLog(2)):
        with pytest.raises(InputError, match=message) as caught:
            world.add(log, done + 1)
        assert "\n" not in str(caught.value)
    assert world.storage.files == files


def commit(**changes):
    """Make a commit of batch 3."""
    return replace(Commit(3, False, 1, "slot-1/parts-3", 5, ONE), **changes)


def test_commits_survive_their_line_and_damaged_ones_are_refused():
    assert Commit.from_line(commit().to_line()) == commit()
    assert "\n" not in commit(identity={"key": ["zwei\nZeilen \u2028"]}).to_line()
    for line in ("", "{", "[]", "7", "null", '{"format":1}', commit().to_line()[:-9]):
        with pytest.raises(InputError, match="a commit is damaged"):
            Commit.from_line(line)
    for wrong in ({"batch": "x"}, {"rows": True}, {"merged": 0}, {"folder": 7}, {"content": 1}):
        with pytest.raises(InputError, match="a commit is damaged"):
            Commit.from_line(commit(**wrong).to_line())
    with pytest.raises(InputError, match="they have format 3, and this version of keyspread reads format 1"):
        Commit.from_line(commit().to_line().replace('"format":1', '"format":3'))


def test_commits_without_those_before_them_are_refused():
    merge, second = commit(batch=1, merged=True), commit(batch=2)
    assert Committed.of([commit(), merge, second]).last == 3
    with pytest.raises(InputError, match="the commit of batch 0 is missing"):
        Committed.of([commit(), second])
    with pytest.raises(InputError, match="the commit of batch 2 is missing"):
        Committed.of([commit(), merge])
