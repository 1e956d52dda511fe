"""Logs of Spark 1 to 4 from many places, with the right answers; they are not part of the project."""

import json

import pytest

from keyspread.diagnosis import diagnose_log


@pytest.fixture(scope="module")
def logs(shared_data):
    folder = shared_data / "eventlogs"
    if not (folder / "expected.json").is_file():
        pytest.skip("no event logs: KEYSPREAD_DATA has no folder eventlogs")
    return folder


@pytest.fixture(scope="module")
def answers(logs):
    return json.loads((logs / "expected.json").read_text())


@pytest.fixture(scope="module")
def diagnoses(logs, answers):
    return {name: diagnose_log(logs / name) for name in answers}


def test_the_logs_are_there(answers):
    assert len(answers) == 23


def test_every_hot_key_is_found_and_no_other(answers, diagnoses):
    for name, answer in answers.items():
        (diagnosis,) = diagnoses[name]
        found = {finding.stage: finding for finding in diagnosis.skew}
        assert set(found) == {expected["stage"] for expected in answer["key_skew"]}, name
        for expected in answer["key_skew"]:
            finding = found[expected["stage"]]
            assert (finding.operator, list(finding.keys)) == (expected["operator"], expected["keys"]), name
            assert finding.lost == pytest.approx(expected["lost_s"], rel=0.15)
            assert finding.wall == pytest.approx(expected["wall_s"], rel=0.01)
            assert finding.adaptive == expected["aqe"]


@pytest.mark.parametrize(
    ("name", "stage", "kind", "text"),
    [
        ("truth/eventlog_v2_local-1794829664207", 43, "serial", "coalesced"),
        ("spark-rapids-tools/emr_uneven_input_eventlog.zstd", 3, "uneven-input", "24 of 30 tasks read no rows"),
        ("apache-spark/application_1628109047826_1317105", 0, "stragglers", "63.8 s, the mean 18.4 s"),
        ("kubeflow-mcp/eventlog_v2_spark-110be3a8424d4a2789cb88134418217b", 5, "waves", "17 tasks on 4 slots: 5 waves"),
        ("spark-rapids-tools/tasks_executors_fail_compressed_eventlog.zstd", None, "retries", "53 failed tasks"),
        ("truth/operators-3.5.9", 16, "start-up", "8.8 s longer"),
    ],
)
def test_what_is_no_skew_is_called_by_its_name(name, stage, kind, text, diagnoses):
    (diagnosis,) = diagnoses[name]
    (finding,) = [one for one in diagnosis.others if (one.stage, one.kind) == (stage, kind)]
    assert text in finding.text


def test_a_bad_line_is_noted(diagnoses):
    (diagnosis,) = diagnoses["spark-rapids-tools/malformed_json_eventlog.zstd"]
    assert "one line is not a readable event and left out" in diagnosis.notes


def test_every_form_of_every_log(diagnoses):
    for (diagnosis,) in diagnoses.values():
        json.dumps(diagnosis.to_dict())
        assert diagnosis.verdict in str(diagnosis)
        assert "<script" not in diagnosis.to_html()


def test_a_real_job_that_is_killed_before_its_slowest_task_ends(logs, answers, tmp_path):
    """The key is named, as a lower bound. In stage 16 the slowest task is one that waits for Python to start."""
    name = "truth/operators-3.5.9"
    lines = (logs / name).read_bytes().splitlines(keepends=True)
    stages = [expected for expected in answers[name]["key_skew"] if expected["stage"] != 16]
    assert len(stages) == 5
    for expected in stages:
        ends = {}
        for place, line in enumerate(lines):
            if line.startswith(b'{"Event":"SparkListenerTaskEnd","Stage ID":%d,' % expected["stage"]):
                info = json.loads(line)["Task Info"]
                ends[place] = info["Finish Time"] - info["Launch Time"], info["Finish Time"]
        last = max(ends, key=lambda place: ends[place])
        killed = {"Event": "SparkListenerApplicationEnd", "Timestamp": ends[last][1]}
        path = tmp_path / "killed"
        path.write_bytes(b"".join(lines[:last]) + json.dumps(killed).encode() + b"\n")
        (diagnosis,) = diagnose_log(path)
        (finding,) = [finding for finding in diagnosis.skew if finding.stage == expected["stage"]]
        assert (finding.operator, list(finding.keys)) == (expected["operator"], expected["keys"])
        assert finding.unfinished
