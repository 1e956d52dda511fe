"""`keyspread compare`: a row per scheme and a recommendation for people, JSON for machines, one line for mistakes."""

import json
import re

import pytest

pytest.importorskip("typer")

from keyspread.cli import main
from keyspread.evaluation.compare import ALL


@pytest.fixture
def run(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments):
        code = main(["compare", *(str(argument) for argument in arguments)])
        return code, *capsys.readouterr()

    return run


def test_the_command(run, tmp_path):
    path = tmp_path / "clicks.csv"
    path.write_text("user,amount\n" + "".join(f"anna,1\nu{i},2\n" for i in range(5000)))
    code, out, err = run("--input", path, "--key", "user", "--workers", "10", "--windows", "9")
    assert (code, err) == (0, "")
    assert "clicks.csv, 10 workers, 5 senders" in out
    assert all(scheme in out for scheme in ALL)
    assert "Use planned: " in out
    assert "rate: not shown for fewer than 100,000 messages" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80


def test_the_rates_of_a_long_stream(run):
    code, out, err = run("--skew", "1.6", "--keys", "500", "--messages", "1e5", "--workers", "8")
    assert (code, err) == (0, "")
    assert "× partial-key; includes planning, learning" in " ".join(out.split())
    assert re.search(r"partial-key .* 1\.00 ×\n", out)


def test_the_command_as_json(run):
    code, out, _ = run("--skew", "1.6", "--keys", "500", "--messages", "2e4", "--workers", "8", "--json")
    said = json.loads(out)
    assert code == 0
    assert [scheme["scheme"] for scheme in said["schemes"]] == list(ALL)
    assert set(said["frontier"]) <= set(ALL)
    assert said["rate_includes"].startswith("planning, learning the hot keys, routing")
    assert said["recommended"] is None
    assert said["advice"].startswith("No advice: with 400 messages per window")
    code, out, _ = run(
        "--skew", "1.6", "--keys", "500", "--messages", "2e4", "--workers", "8", "--windows", 25, "--json"
    )
    said = json.loads(out)
    assert said["recommended"] == "planned"
    assert said["advice"].startswith("Use planned: ")
    assert (said["format"], said["input"], said["skew"], said["workers"]) == (1, "zipf", 1.6, 8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "nowhere.tsv"], "nowhere.tsv is neither a generated stream"),
        (["--workers", "0"], "workers must be at least 1, got 0"),
        (["--scale", "0.5"], "--scale is for wp, tw and ct only, got 0.5 with zipf"),
        (["--threshold", "2", "--messages", "10"], "threshold is a share"),
        (["--input", "a.csv", "--key", "a", "--key", "b"], "--key takes one column here, got a, b: join them into one"),
    ],
)
def test_a_mistake_is_exit_code_2_and_one_line(run, arguments, message):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
