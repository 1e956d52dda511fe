"""Every command: one name per option, old names that still work, and a --help without types and old names."""

import json

import pytest

pytest.importorskip("typer")

from keyspread.cli import main
from keyspread.cli.options.command import OLD_NAMES

COMMANDS = [
    [],
    ["run"],
    ["simulate"],
    ["compare"],
    ["datasets"],
    ["datasets", "list"],
    ["datasets", "describe"],
    ["datasets", "make"],
    ["reproduce"],
    ["bench"],
    ["bench", "deployment"],
    ["doctor"],
]
SMALL = ["--messages", "2000", "--keys", "50", "--workers", "3", "--windows", "2"]


@pytest.fixture
def run(capsys, monkeypatch):
    """Run in this process: (exit code, stdout, stderr)."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def stream_file(tmp_path):
    path = tmp_path / "stream.tsv"
    path.write_text("1\ta\n2\tb\n3\ta\n")
    return path


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_fits_80_columns_and_shows_no_types(run, command):
    code, out, err = run(*command, "--help")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert not {"<bool>", "<str>", "<list[str]>", "BOOLEAN"} & set(out.split())
    assert "[default" not in out


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_shows_no_old_name(run, command):
    shown = set(run(*command, "--help")[1].split())
    # Two old names are names of other options in other commands.
    old_here = {"reproduce": "--scale", "bench deployment": "--rate"}.get(" ".join(command))
    others = {"--scale", "--rate"} - {old_here}
    assert not ({name for names in OLD_NAMES.values() for name in names} - others) & shown


def test_usage_has_no_hidden_arguments(run):
    assert "Usage: keyspread compare [OPTIONS]  " in run("compare", "--help")[1]


@pytest.mark.parametrize(
    "arguments",
    [
        ["simulate", "--input", "{file}", "--workers", "2", "--senders", "3", "--counters", "40", "--messages", "2"],
        ["simulate", "--stream", "{file}", "--workers", "2", "--sources", "3", "--capacity", "40", "--limit", "2"],
    ],
)
def test_old_names_of_simulate(run, stream_file, arguments):
    code, out, err = run(*(argument.format(file=stream_file) for argument in arguments), "--scheme", "dc", "--json")
    assert (code, err) == (0, "")
    given = json.loads(out)
    expected = {"input": str(stream_file), "sources": 3, "counters": 40, "messages": 2, "scheme": "d-choices"}
    assert {name: given[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["reproduce", "--scale", "huge"], ["reproduce", "--size", "huge"]),
        (["reproduce", "--limit", "5"], ["reproduce", "--messages", "5"]),
        (["bench", "deployment", "--rate", "-1"], ["bench", "deployment", "--utilization", "-1"]),
        (["bench", "deployment", "--sources", "0"], ["bench", "deployment", "--senders", "0"]),
        (["run", "--partitions", "0"], ["run", "--senders", "0"]),
        (["run", "--scheme", "dc", "--capacity", "0"], ["run", "--scheme", "dc", "--counters", "0"]),
    ],
)
def test_an_old_name_gives_the_same_error(run, tmp_path, monkeypatch, old, new):
    pytest.importorskip("pyspark")
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*old)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "No such option" not in err
    assert run(*new) == (code, out, err)


def test_an_old_name_does_not_work_where_the_option_does_not_exist(run):
    code, _, err = run("compare", "--capacity", "5")
    assert code == 2
    assert "--capacity" in err


def test_every_option_means_the_same_everywhere():
    """Check that an option has the same value name in all commands, and that inputs share their help."""
    import typer

    from keyspread.cli.app import app

    group = typer.main.get_command(app)
    found = {}

    def collect(command, path):
        for parameter in command.params:
            if parameter.param_type_name == "option":
                found.setdefault(parameter.opts[0], {})[" ".join(path)] = parameter
        for name, child in getattr(command, "commands", {}).items():
            collect(child, [*path, name])

    collect(group, ["keyspread"])
    kinds = {option: {one.metavar or "" for one in users.values()} for option, users in found.items()}
    assert {option: kind for option, kind in kinds.items() if len(kind) > 1} == {
        "--input": {"NAME|PATH", "NAME", "PATH"},  # make only generates, reproduce only reads files
        "--out": {"PATH", "FILE"},
        "--work": {"WORK", "NAME"},  # run: with the time per row, such as wait:1ms
    }
    reads_input = {"run", "simulate", "compare", "datasets describe", "datasets make", "reproduce"}
    assert set(found["--input"]) == {f"keyspread {name}" for name in reads_input}
    assert set(found["--senders"]) == {
        f"keyspread {name}" for name in ("run", "simulate", "compare", "bench deployment")
    }
