"""Every command: one name per option, and a --help without types."""

import pytest

pytest.importorskip("typer")

from keyspread.cli import main

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


@pytest.fixture
def run(capsys, monkeypatch):
    """Run in this process: (exit code, stdout, stderr)."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_fits_80_columns_and_shows_no_types(run, command):
    code, out, err = run(*command, "--help")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert not {"<bool>", "<str>", "<list[str]>", "BOOLEAN"} & set(out.split())
    assert "[default" not in out


@pytest.mark.parametrize("line", ["compare stream.tsv", "simulate --source zipf", "run --source zipf"])
def test_there_is_one_way_to_name_the_input(run, line):
    code, out, err = run(*line.split())
    assert (code, out, err.count("\n")) == (2, "", 1)


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
        "--out": {"PATH", "FILE", "PATH|TABLE"},
    }
    reads_input = {"run", "simulate", "compare", "datasets describe", "datasets make", "reproduce"}
    assert set(found["--input"]) == {f"keyspread {name}" for name in reads_input}
    assert set(found["--senders"]) == {f"keyspread {name}" for name in ("simulate", "compare", "bench deployment")}
