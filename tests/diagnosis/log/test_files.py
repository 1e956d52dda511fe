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


def test_a_running_rolling_folder_says_so(tmp_path):
    touch(tmp_path / "eventlog_v2_app", "events_1_app", "appstatus_app.inprogress")
    assert find_logs([tmp_path / "eventlog_v2_app"])[0].running


def test_a_compacted_part_replaces_those_before_it(tmp_path):
    folder = tmp_path / "eventlog_v2_app"
    touch(folder, "events_1_app", "events_2_app", "events_2_app.compact", "events_3_app")
    (log,) = find_logs([folder])
    assert names([log]) == [["events_2_app.compact", "events_3_app"]]
    assert "compacted" in log.notes[0]


def test_a_part_and_its_unpacked_copy_are_read_once(tmp_path):
    folder = tmp_path / "eventlog_v2_app"
    touch(folder, "events_1_app.zstd", "events_1_app", "events_2_app.zstd")
    (log,) = find_logs([folder])
    assert names([log]) == [["events_1_app.zstd", "events_2_app.zstd"]]
    assert log.notes == ("part 1 of the log is there twice: events_1_app is left out",)


def test_a_missing_part_is_noted(tmp_path):
    folder = tmp_path / "eventlog_v2_app"
    touch(folder, "events_2_app", "events_4_app")
    notes = find_logs([folder])[0].notes
    assert "part 3 of the log is missing" in notes[0]
    assert "starts with part 2" in notes[1]


def test_attempts_of_one_application_are_logs_of_their_own(tmp_path):
    touch(tmp_path / "eventlog_v2_app_1", "events_1_app_1")
    touch(tmp_path / "eventlog_v2_app_2", "events_1_app_2")
    assert [log.name for log in find_logs([tmp_path])] == ["app_1", "app_2"]


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


def test_many_applications_are_diagnosed_each(tmp_path):
    skewed_log(name="one").write(tmp_path, "a")
    skewed_log(name="two").write(tmp_path, "b")
    assert [diagnosis.title for diagnosis in diagnose_log(tmp_path)] == ["one", "two"]


def test_of_many_logs_one_that_cannot_be_read_gets_a_note(tmp_path):
    skewed_log(name="good").write(tmp_path, "a")
    (tmp_path / "b").write_bytes(b'{"no": "event"}')
    good, bad = diagnose_log(tmp_path)
    assert good.skew
    assert (bad.title, bad.verdict) == ("b", "Nothing to diagnose.")
    assert "not an event log" in bad.notes[0]
    with pytest.raises(InputError, match="not an event log"):
        diagnose_log(tmp_path / "b")


def test_other_logs_beside_a_rolling_or_hourly_one_are_read_too(tmp_path):
    touch(tmp_path, "events_1_app.zstd", "eventlog", "app-7")
    touch(tmp_path / "more", "app-8")
    expected = [["app-7"], ["app-8"], ["eventlog"], ["events_1_app.zstd"]]
    assert sorted(names(find_logs([tmp_path]))) == expected


def test_an_hour_and_its_unpacked_copy_are_read_once(tmp_path):
    touch(tmp_path, "eventlog-2024-05-01--10-00.gz", "eventlog-2024-05-01--10-00")
    (log,) = find_logs([tmp_path])
    assert names([log]) == [["eventlog-2024-05-01--10-00.gz"]]
    assert "there twice" in log.notes[0]


def test_links_to_the_same_folder_or_file_are_read_once(tmp_path):
    touch(tmp_path, "app-1")
    for name in ("self", "again"):
        (tmp_path / name).symlink_to(".")
    (tmp_path / "link").symlink_to("app-1")
    assert len(find_logs([tmp_path])) == 1


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="a pipe or a device"):
        find_logs([tmp_path / "pipe"])
    with pytest.raises(InputError, match="is empty"):
        find_logs([""])


def test_lines_of_other_events_are_no_log_of_spark(tmp_path):
    (tmp_path / "clicks").write_bytes(b'{"Event":"click"}\n' * 5)
    with pytest.raises(InputError, match="not an event log of Spark"):
        diagnose_log(tmp_path / "clicks")


def test_a_byte_order_mark_is_no_event(tmp_path):
    path = skewed_log().write(tmp_path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    (diagnosis,) = diagnose_log(tmp_path)
    assert (len(diagnosis.skew), diagnosis.notes) == (1, ())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", "no file or folder"),
        ("", "no event log in the folder"),
    ],
)
def test_a_path_without_a_log_is_refused(name, message, tmp_path):
    with pytest.raises(InputError, match=message):
        find_logs([tmp_path / name])


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="every file is readable for this user")
def test_no_permission_is_one_line(tmp_path):
    path = skewed_log().write(tmp_path)
    path.chmod(0)
    with pytest.raises(InputError, match="no permission to read"):
        diagnose_log(path)
