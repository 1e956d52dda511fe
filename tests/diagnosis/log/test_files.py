"""Which files are one application, and in which order: rolling folders, Databricks' layout, folders of many logs."""

import os

import pytest

from keyspread.diagnosis import diagnose_log
from keyspread.diagnosis.log.files import find_logs
from keyspread.errors import InputError
from made_logs import skewed_log

LINE = b'{"Event":"SparkListenerLogStart","Spark Version":"4.0.0"}\n'


def touch(folder, *names, content=LINE):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(content)


def names(logs):
    return [[path.name for path in log.files] for log in logs]


def test_a_rolling_folder_is_one_log_in_order_of_numbers(tmp_path):
    folder = tmp_path / "eventlog_v2_app"
    touch(folder, *(f"events_{number}_app.zstd" for number in (10, 2, 1, 9, 3, 4, 5, 6, 7, 8)), "appstatus_app")
    (log,) = find_logs([folder])
    assert [path.name for path in log.files] == [f"events_{number}_app.zstd" for number in range(1, 11)]
    assert (log.name, log.running, log.notes) == ("app", False, ())
    touch(folder, "appstatus_app.inprogress")
    assert find_logs([folder])[0].running


@pytest.mark.parametrize(
    ("there", "read", "notes"),
    [
        ("1_app 2_app 2_app.compact 3_app", "2_app.compact 3_app", ["Spark compacted this log"]),
        ("1_app.zstd 1_app 2_app.zstd", "1_app.zstd 2_app.zstd", ["part 1 of the log is there twice: events_1_app is"]),
        ("2_app 4_app", "2_app 4_app", ["part 3 of the log is missing", "the log starts with part 2"]),
    ],
)
def test_parts_that_are_compacted_there_twice_or_missing(there, read, notes, tmp_path):
    touch(tmp_path / "eventlog_v2_app", *(f"events_{part}" for part in there.split()))
    (log,) = find_logs([tmp_path])
    assert names([log]) == [[f"events_{part}" for part in read.split()]]
    assert [note.startswith(begin) for note, begin in zip(log.notes, notes, strict=True)] == [True] * len(notes)


def test_databricks_writes_hourly_files_and_the_newest_without_a_date(tmp_path):
    folder = tmp_path / "0501-cluster" / "eventlog" / "0501-cluster_10_0_0_1" / "77"
    touch(folder, "eventlog", "eventlog-2024-05-01--11-00.gz", "eventlog-2024-05-01--10-00.gz")
    (log,) = find_logs([tmp_path])
    assert names([log]) == [["eventlog-2024-05-01--10-00.gz", "eventlog-2024-05-01--11-00.gz", "eventlog"]]


def test_a_folder_of_many_applications(tmp_path):
    touch(tmp_path, "app-1", "app-2.inprogress", ".hidden", "_SUCCESS", "app-1.crc")
    touch(tmp_path, "README.txt", content=b"Nothing to see")
    touch(tmp_path / "eventlog_v2_app-3", "events_1_app-3")
    logs = find_logs([tmp_path])
    assert [(log.name, log.running) for log in logs] == [("app-1", False), ("app-2.inprogress", True), ("app-3", False)]
    assert len(find_logs([tmp_path, tmp_path / "app-1"])) == 3  # named twice, read once


def test_of_many_logs_one_that_cannot_be_read_gets_a_note(tmp_path):
    skewed_log(name="good").write(tmp_path, "a")
    (tmp_path / "b").write_bytes(b'{"no": "event"}')
    good, bad = diagnose_log(tmp_path)
    assert good.skew
    assert (bad.title, bad.verdict) == ("b", "Nothing to diagnose.")
    assert "not an event log" in bad.notes[0]
    with pytest.raises(InputError, match="not an event log"):
        diagnose_log(tmp_path / "b")


def test_logs_beside_each_other_are_all_read_and_an_unpacked_copy_is_not(tmp_path):
    hour = "eventlog-2024-05-01--10-00"
    touch(tmp_path, "events_1_app.zstd", "eventlog", f"{hour}.gz", hour, "app-7")
    touch(tmp_path / "more", "app-8")
    logs = find_logs([tmp_path])
    hourly = [f"{hour}.gz", "eventlog"]
    assert sorted(names(logs)) == [["app-7"], ["app-8"], hourly, ["events_1_app.zstd"]]
    assert "there twice" in next(log.notes[0] for log in logs if log.notes)


def test_what_is_no_log_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    refused = {"pipe": "a pipe or a device", "nowhere": "no file or folder", "folder": "no event log in the folder"}
    for name, message in refused.items():
        with pytest.raises(InputError, match=message):
            find_logs([tmp_path / name])
    with pytest.raises(InputError, match="is empty"):
        find_logs([""])
