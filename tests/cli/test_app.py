"""The command line: exit code 2 and one line for a mistake, JSON for machines, 80 columns for people."""

import gzip
import json
import os
import signal
import subprocess
import sys

import pytest

import keyspread
from keyspread.cli import main
from keyspread.streams import zipf

pytest.importorskip("typer")


SMALL = ["--messages", "1e4", "--keys", "1e3", "--workers", "8"]


@pytest.fixture
def run(capsys):
    """Run in this process: (exit code, stdout, stderr)."""

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def stream_file(tmp_path):
    path = tmp_path / "stream.tsv.gz"
    path.write_bytes(gzip.compress(b"1\ta\n2\tb\nbroken\n3\ta\n"))
    return path


def command(*arguments, code="import sys; from keyspread.cli import main; sys.exit(main())", **options):
    """Start the command as users do, in a separate process."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "80", **options},
    )


def test_json_has_the_names_and_values_of_simulate(run):
    code, out, err = run("simulate", *SMALL, "--skew", 1.4, "--seed", 3, "--senders", 2, "--windows", 10, "--json")
    assert (code, err) == (0, "")
    assert out.count("\n") == 1
    given = json.loads(out)
    expected = keyspread.simulate(zipf(1.4, 1000, 10_000, 3), "per-key", 8, sources=2, seed=3, windows=10)
    for name in ("imbalance", "mean_imbalance", "windowed_imbalance", "replicas", "head_replicas", "threshold"):
        assert given[name] == getattr(expected, name), name
    for name in ("loads", "head_load", "tail_load", "imbalance_over_time"):
        assert given[name] == getattr(expected, name).tolist(), name
    assert given["choices"] == list(expected.choices)
    assert len(given["choices"]) == 2
    parameters = {
        "format": 1,
        "input": "zipf",
        "stream": "zipf",
        "skew": 1.4,
        "law_keys": 1000,
        "scheme": "per-key",
        "workers": 8,
    }
    parameters |= {"sources": 2, "seed": 3, "windows": 10, "messages": 10_000, "malformed": 0}
    assert {name: given[name] for name in parameters} == parameters


def test_options_reach_the_scheme(run, monkeypatch):
    seen = {}

    def simulate(hashes, scheme, workers, **options):
        seen.update(options)
        raise keyspread.InputError("seen")

    monkeypatch.setattr(keyspread, "simulate", simulate)
    run("simulate", *SMALL, "--threshold", "1e-2", "--tolerance", 0.001, "--counters", "1e3", "--choices", 4)
    assert seen == {
        "sources": 5,
        "seed": 0,
        "windows": 50,
        "progress": None,
        "threshold": 0.01,
        "tolerance": 0.001,
        "counters": 1000,
        "choices": 4,
    }
    run("simulate", *SMALL, "--half-life", "auto")
    assert seen["half_life"] == "auto"
    run("simulate", *SMALL, "--half-life", "2.5e3")
    assert seen["half_life"] == 2500


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate", "--workers", "2.5"], "Invalid value for '--workers': must be a whole number such as"),
        (["simulate", "--messages", "many"], "such as 1000000 or 1e6, got 'many' (see keyspread simulate --help)"),
        (["simulate", "--skew", "steep"], "Invalid value for '--skew': must be a number, got 'steep'"),
        (["simulate", "--half-life", "soon"], "must be a whole number of messages such as 1e5, or auto, got 'soon'"),
        (
            ["simulate", "--input", "nowhere.tsv"],
            "nowhere.tsv is neither a generated stream (zipf, drift, wp, tw, ct) nor a file",
        ),
        (["simulate", "--input", ".", "--skew", "2"], "--skew is for zipf and drift only, got 2 with .: leave it out"),
        (["simulate", "--input", ".", "--keys", "2"], "--keys is for zipf and drift only, got 2 with .: leave it out"),
        (["simulate", "--no-such-option"], "--no-such-option"),
        (["simulate", "--skew"], "--skew"),
        (["no-such-command"], "No such command 'no-such-command'"),
        (["--no-such-option"], "(see keyspread --help)"),
    ],
)
def test_a_mistake_is_exit_code_2_and_one_line(run, arguments, message):
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("keyspread: error: ")
    assert err.count("\n") == 1
    assert message in err


def test_strict_and_empty_files_are_mistakes(run, stream_file, tmp_path):
    code, _, err = run("simulate", "--input", stream_file, "--strict")
    assert (code, err.count("\n")) == (2, 1)
    assert f"{stream_file}, line 3: expected time<TAB>key, got 'broken'" in err
    (tmp_path / "empty.tsv").write_bytes(b"")
    code, _, err = run("simulate", "--input", tmp_path / "empty.tsv")
    assert (code, err.count("\n")) == (2, 1)
    assert "no messages (the file is empty)" in err


def test_a_bug_is_not_hidden(monkeypatch):
    monkeypatch.setattr(keyspread, "simulate", lambda *arguments, **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["simulate", *SMALL])


@pytest.mark.parametrize(("workers", "scheme"), [(1, "key"), (20, "d-choices"), (21, "key"), (500, "d-choices")])
def test_the_screen_fits_80_columns(run, monkeypatch, workers, scheme):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = run("simulate", *SMALL[:4], "--workers", workers, "--scheme", scheme)
    assert (code, err) == (0, "")
    assert all(len(line) <= 80 for line in out.splitlines())
    assert f"{scheme}, {workers} worker{'s' if workers > 1 else ''}, 5 senders: Zipf 1.4 over 1,000 keys" in out
    assert "10,000" in out
    assert "imbalance per window" in out
    assert sum(line.startswith("worker ") for line in out.splitlines()) == (workers if workers <= 20 else 0)


def test_doctor(run, monkeypatch):
    import keyspread.cli.commands.doctor
    from keyspread.cli.commands.doctor import Check

    good = Check("python", True, "3.11")
    asked = []

    def checks(*, start_spark):
        asked.append(start_spark)
        return found

    monkeypatch.setattr(keyspread.cli.commands.doctor, "checks", checks)
    found = [good, Check("connect", False, "not installed", "pip install it", needed=False)]
    code, out, _ = run("doctor")
    assert code == 0
    assert "pip install it" in out
    found = [good, Check("java", False, "[none] found", "install Java")]
    code, out, _ = run("doctor", "--quick")
    assert code == 1
    assert "[none] found" in out
    assert "1 problem found" in out
    code, out, _ = run("doctor", "--json")
    assert code == 1
    given = json.loads(out)
    assert (given["format"], given["ok"]) == (1, False)
    assert given["checks"][1] == {
        "name": "java",
        "ok": False,
        "detail": "[none] found",
        "remedy": "install Java",
        "needed": True,
    }
    assert asked == [True, False, True]


def test_as_a_process():
    for code in ("import sys; from keyspread.cli import main; sys.exit(main())", None):
        start = ["-m", "keyspread"] if code is None else ["-c", code]
        done = subprocess.run([sys.executable, *start, "--version"], capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"keyspread {keyspread.__version__}\n", "")
    bad = command("simulate", "--workers", "x")
    _, err = bad.communicate()
    assert bad.returncode == 2
    assert err.count("\n") == 1


def test_a_terminal_without_unicode():
    process = command("simulate", *SMALL, PYTHONIOENCODING="ascii")
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert "#" in out
    assert out.isascii()


def test_the_reader_may_leave():
    process = command("--help")
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 1
    process.stderr.close()


def test_without_typer():
    code = "import sys; sys.modules['typer'] = None; from keyspread.cli import main; sys.exit(main())"
    process = command("simulate", code=code)
    out, err = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert err == "keyspread: error: the command line needs typer: pip install 'keyspread[cli]'\n"


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_is_quiet():
    code = """
import sys, time, keyspread
def simulate(*arguments, **options):
    print("begun", flush=True)
    time.sleep(60)
keyspread.simulate = simulate
from keyspread.cli import main
sys.exit(main())
"""
    process = command("simulate", *SMALL, code=code)
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate() == ("", "")
    assert process.returncode == 130


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_output_that_cannot_be_written_is_one_line():
    command = [sys.executable, "-c", "from keyspread.cli import main; import sys; sys.exit(main())"]
    with open("/dev/full", "w") as full:
        simulate = [*command, "simulate", "--messages", "1e3", "--json"]
        done = subprocess.run(simulate, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr.decode() == (
        "keyspread: error: the output cannot be written (No space left on device): free some space or write elsewhere\n"
    )
