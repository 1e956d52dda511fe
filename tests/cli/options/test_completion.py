"""Shell completion: the protocol of bash, zsh and fish, and the values that they offer."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("typer")

ENTRY = "import sys; from keyspread.cli import main; sys.exit(main())"


def command(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-c", ENTRY, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )


def complete(line):
    """Return what bash offers at the end of this line."""
    words = line.split(" ")
    done = command(_KEYSPREAD_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("keyspread simulate --scheme d", ["d-choices"]),
        ("keyspread simulate --scheme f", ["fish"]),
        ("keyspread run --scheme f", []),
        ("keyspread run --scheme pl", ["planned"]),
        ("keyspread compare --input d", ["drift"]),
        ("keyspread run --input k", ["kafka"]),
        ("keyspread simulate --input clicks", []),  # bash then offers files
        ("keyspread datasets describe --format w", ["wikibench", "words"]),
        ("keyspread run --format t", ["tsv"]),
        ("keyspread run --out-format p", ["parquet"]),
        ("keyspread reproduce --size p", ["paper"]),
        ("keyspread bench deployment --schemes key,d", ["key,d-choices"]),
        ("keyspread simulate --sen", ["--senders"]),
        ("keyspread simulate --str", ["--stream", "--strict"]),
        ("keyspread da", ["datasets"]),
    ],
)
def test_bash_offers(line, offered):
    assert complete(line) == offered


def test_zsh_and_fish_offer_the_same():
    line = {"_TYPER_COMPLETE_ARGS": "keyspread simulate --scheme d"}
    zsh = command(_KEYSPREAD_COMPLETE="complete_zsh", **line)
    assert '"d-choices"' in zsh.stdout
    fish = command(_KEYSPREAD_COMPLETE="complete_fish", _TYPER_COMPLETE_FISH_ACTION="get-args", **line)
    assert fish.stdout.split() == ["d-choices"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_show_completion_prints_a_script(shell):
    done = command("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"_KEYSPREAD_COMPLETE=complete_{shell}" in done.stdout


def test_install_completion(tmp_path):
    done = command("--install-completion", "bash", HOME=str(tmp_path), _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert done.returncode == 0, done.stderr
    assert "keyspread.sh" in (tmp_path / ".bashrc").read_text()
    assert "_KEYSPREAD_COMPLETE" in (tmp_path / ".bash_completions" / "keyspread.sh").read_text()


def test_the_formats_are_those_that_run_reads_and_writes():
    pytest.importorskip("pyspark")
    from keyspread.cli.options import completion
    from keyspread.job.sinks import FORMATS as WRITTEN
    from keyspread.job.sources import FORMATS as READ

    assert completion.run_formats() == list(READ)
    assert sorted(completion.result_formats()) == sorted(WRITTEN)
