"""`./dev bench stream_faults`: what it draws and how it judges; the schedules that once failed are run again."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from faults.campaign import Group, batches_read
from faults.gates import MOMENTS, READING, open_gate, wait_at, waiting_process
from faults.plain import closed_windows
from faults.results import Result, Results, fault_table
from faults.schedules import FAULTS, READ_FAULTS, Schedule, draw_group
from faults.seeds import kept
from faults.streams import Row
from faults.ways import END, WAYS

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


def everything():
    return [schedule for group in range(25) for schedule in draw_group(0, group)]


def test_a_campaign_has_every_fault_with_every_way():
    drawn = everything()
    assert len(drawn) == 25 * len(WAYS)
    assert {(s.way_name, fault) for s in drawn for fault in s.faults} == {(w, f) for w in WAYS for f in FAULTS}
    assert drawn == everything()
    assert [s.batches for s in drawn[: len(WAYS)]] == [s.batches for s in draw_group(0, 0)]


def test_faults_are_in_order_and_happen_where_there_is_something_to_disturb():
    shuffled = set()
    for schedule in everything():
        times = [(batch, MOMENTS.index(moment)) for batch, moment in schedule.gates]
        assert times == sorted(set(times))
        assert "second" not in schedule.faults[:-1]
        for fault, (batch, moment) in zip(schedule.faults, schedule.gates, strict=True):
            assert moment in schedule.way.moments
            if moment == READING:
                assert schedule.batches[batch]
            elif fault in READ_FAULTS and READING in schedule.way.moments:
                assert sum(map(bool, schedule.batches)) < len(schedule.faults)
        if schedule.way.shuffled:
            shuffled.add(schedule.settings["spark.sql.shuffle.orderIndependentChecksum.enabled"])
    assert shuffled == {"true", "false"}


def test_only_the_first_process_waits_at_a_gate(tmp_path):
    (tmp_path / "gates.json").write_text(json.dumps([[1, READING]]))
    wait_at(tmp_path, 0, READING)
    assert waiting_process(tmp_path, 0) is None
    open_gate(tmp_path, 0)
    wait_at(tmp_path, 1, READING)
    assert waiting_process(tmp_path, 0) == os.getpid()
    (tmp_path / "gate-0-open").unlink()
    wait_at(tmp_path, 1, READING)  # a later attempt passes


def test_a_late_row_counts_until_its_window_is_over_for_a_batch():
    second = 1_000_000
    at = [[12, 26], [9], [9, 31]]  # watermarks 0, 21, 21: the second 9 is too late for a window that ends at 10
    batches = [[Row(0, moment * second, "k", 1) for moment in batch] for batch in at]
    assert closed_windows(batches, 10 * second, 10 * second) == [[10 * second, "k", 1, 1], [20 * second, "k", 1, 1]]


def test_files_that_were_written_down_before_a_kill_belong_to_the_next_batch(tmp_path):
    batches = [[Row(number, 0, "k", 1)] for number in range(5)]
    assert batches_read(batches, tmp_path) == batches
    (tmp_path / "offsets").mkdir()
    for number, last in enumerate((0, 1, 3, 3)):  # the last one has no data
        (tmp_path / "offsets" / str(number)).write_text(f'v1\n{{}}\n{{"logOffset":{last}}}')
    assert batches_read(batches, tmp_path) == [batches[0], batches[1], batches[2] + batches[3], batches[4]]


def judged(tmp_path, schedule, change):
    """Write the expected answer with a change, and return the problem that is found."""
    group = Group([schedule], tmp_path / "work", None)
    group.write()
    place = schedule.place(group.work)
    answers = schedule.way.expected(schedule.batches, place)
    if schedule.way_name.startswith("spread,"):
        answers = {number: [[*row, 0] for row in rows] for number, rows in answers.items()}
    for number, rows in answers.items():
        (place.folder / "out" / f"{number}-a.json").write_text(json.dumps(rows))
    change(place.folder, answers)
    return group.judge(schedule).problem


def write(folder, number, rows, token="a"):
    (folder / "out" / f"{number}-{token}.json").write_text(json.dumps(rows))


@pytest.mark.parametrize("way", WAYS)
def test_a_wrong_answer_is_found(tmp_path, way):
    schedule = Schedule(0, 0, way, ())

    def done(folder, answers):
        (folder / "done").touch()

    def without_a_row(folder, answers):
        done(folder, answers)
        number = max(answers, key=lambda number: len(answers[number]))
        write(folder, number, answers[number][1:])

    def with_a_row_twice(folder, answers):
        done(folder, answers)
        number = max(answers, key=lambda number: len(answers[number]))
        write(folder, number, [answers[number][0], *answers[number]])

    def with_another_attempt(folder, answers):
        done(folder, answers)
        number = max(answers, key=lambda number: len(answers[number]))
        write(folder, number, [*answers[number][1:], [*answers[number][0][:-1], 9]], "b")

    assert judged(tmp_path, schedule, done) == ""
    assert judged(tmp_path, schedule, lambda *_: None) == "did not end"
    assert "1 missing" in judged(tmp_path, schedule, without_a_row)
    assert "1 too many" in judged(tmp_path, schedule, with_a_row_twice)
    assert "2 attempts wrote different rows" in judged(tmp_path, schedule, with_another_attempt)
    assert END in WAYS[way].expected(schedule.batches, schedule.place(tmp_path)) or len(schedule.batches) >= 3


def test_results_are_kept_and_counted(tmp_path):
    (first, second, *_) = draw_group(0, 3)
    good = Result(0, 3, first.way_name, 10, 3, ["driver"], ["driver"], True)
    bad = Result(0, 3, second.way_name, 10, 3, ["driver"], ["driver"], False, "batch 1: a row is missing")
    Results(tmp_path).add([good, bad])
    again = Results(tmp_path)
    assert [asdict(one) for one in again.all.values()] == [asdict(good), asdict(bad)]
    assert again.has(first)
    assert not again.has(draw_group(0, 4)[0])
    column = 1 + FAULTS.index("driver")
    assert [(row[0], row[column], row[-1]) for row in fault_table([good, bad])] == [
        (first.way_name, "1/1", "1/1"),
        (second.way_name, "0/1", "0/1"),
        ("all", "1/2", "1/2"),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "x"], "--only takes GROUP or GROUP/WAY, got 'x'"),
        (["--only", "1/none"], "--only takes GROUP or GROUP/WAY, got '1/none'"),
        (["--faults", "flood"], "no fault 'flood'; known are reading; "),
        (["--schedules", "0"], "--schedules must be at least 1, got 0"),
    ],
)
def test_a_mistake_is_one_line(monkeypatch, capsys, arguments, message):
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.setattr(sys, "argv", ["stream_faults.py", *arguments])
    with pytest.raises(SystemExit, match="2"):
        import_module("stream_faults").main()
    error = capsys.readouterr().err
    assert error.startswith(message)
    assert error.count("\n") == 1


def campaign(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(BENCHMARKS)}
    command = [sys.executable, str(BENCHMARKS / "streaming" / "stream_faults.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(("seed", "faults"), sorted({(one.seed, one.faults) for one in kept()}))
def test_schedules_that_once_failed(tmp_path, seed, faults):
    """With the faults that they had then."""
    names = [f"{one.group}/{one.way}" for one in kept() if (one.seed, one.faults) == (seed, faults)]
    only = [argument for name in names for argument in ("--only", name)]
    done = campaign("--seed", str(seed), "--faults", faults, "--folder", str(tmp_path), *only)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
