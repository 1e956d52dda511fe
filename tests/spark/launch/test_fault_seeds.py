"""`./dev bench stream_faults`: what it draws and how it judges; the schedules that once failed are run again."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from faults.campaign import Group
from faults.schedules import FAULTS, Schedule, draw_group
from faults.seeds import kept
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
