"""Fixtures for all tests: the folder of real streams if this machine has it, and a way to write files."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, configuration, settings

# No deadline, and no check of speed: how long an example takes depends on the machine and on what else runs there. CI
# tries the same examples every time, so that a change is not held up by an example that has nothing to do with it;
# developers try new ones. Who only wants to know whether a test fails need not wait for a small example of it.
phases = [Phase.explicit, Phase.reuse, Phase.generate] if os.environ.get("KEYSPREAD_TEST_NO_SHRINKING") else list(Phase)
settings.register_profile(
    "keyspread",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
    phases=phases,
)
settings.load_profile("keyspread")
# Examples that failed are kept in the project, in whatever folder pytest was started.
configuration.set_hypothesis_home_dir(Path(__file__).resolve().parent.parent / ".hypothesis")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of the real streams, which are not part of the project."""
    name = os.environ.get("KEYSPREAD_DATA")
    if not name:
        pytest.skip("no real streams: set KEYSPREAD_DATA to the folder that has them")
    folder = Path(name)
    if not folder.is_dir():
        pytest.fail(f"KEYSPREAD_DATA must be a folder with the real streams, got {name!r}")
    return folder


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes bytes into a file of this test."""

    def write(data: bytes, name: str = "stream.tsv") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    return write


@pytest.fixture
def live_deployment():
    """Return a live measurement as the model predicts it: key saturates at the second rate, d-choices does not."""
    pytest.importorskip("pyspark")
    from keyspread.paper.live.measure import model
    from keyspread.paper.live.setup import Limit, LiveDeployment, LiveRun, LiveSetup

    setup = LiveSetup(4, 2, 16, schemes=("key", "d-choices"), rates=(20, 100), seconds=3)
    load, runs, limits = setup.load(2.0), [], []
    for scheme in setup.schemes:
        predicted = list(model(scheme, setup.workers, load))
        runs += [LiveRun(2.0, scheme, at_rate, at_rate.waiting) for at_rate in predicted]
        limits.append(Limit.of(2.0, scheme, predicted, predicted))
    return LiveDeployment(setup, tuple(runs), tuple(limits), "local[16]")
