"""A setup: the paper's by default, invalid ones refused in one line, and a round trip through JSON."""

import pytest

from keyspread import InputError
from keyspread.paper.deployment.setup import Setup, predict, streaming


def test_the_defaults_are_the_papers():
    setup = Setup()
    assert (setup.skews, setup.keys, setup.sources, setup.workers) == ((1.4, 1.7, 2.0), 10_000, 48, 80)
    assert setup.work_seconds == 0.001
    assert setup.best_rate == pytest.approx(80_000)
    assert setup.arrival_rate == pytest.approx(16_000)
    assert Setup(schemes=("KG", "Planned", "dc")).schemes == ("key", "planned", "d-choices")


def test_runs_are_scaled_so_that_the_busiest_worker_always_works_equally_long():
    setup = Setup(seconds=2.0)
    assert setup.scaled(0.5) == 4_000
    assert setup.scaled(1 / 80) == 160_000


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"skews": ()}, "skews must have one or more values, each once, got none"),
        ({"skews": (1.0, 1.0)}, "skews must have one or more values, each once, got 1.0, 1.0"),
        ({"skews": (-1.0,)}, "skew must not be negative"),
        ({"schemes": ("best",)}, "unknown scheme 'best'"),
        ({"workers": 0}, "workers must be at least 1, got 0"),
        ({"milliseconds": 0}, "milliseconds must be above 0"),
    ],
)
def test_what_cannot_be_deployed_is_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        Setup(**wrong)


def test_the_model_predicts_which_schemes_saturate_early():
    setup = Setup(skews=(2.0,), workers=20, sources=4, seconds=0.5, arrivals=1.0)
    found = {scheme: predict(setup, 2.0, scheme) for scheme in setup.schemes}
    best = setup.best_rate
    assert found["key"].rate == pytest.approx(1000 / 0.61, rel=0.05)  # one worker has the hottest key, 61 %
    assert found["key"].rate < found["partial-key"].rate < 0.3 * best
    assert all(found[scheme].rate > 0.9 * best for scheme in ("shuffle", "d-choices", "w-choices", "planned"))
    assert all(one.rate == pytest.approx(1 / (one.share * 0.001)) for one in found.values())
    assert found["key"].waiting.p99 > 2 * found["w-choices"].waiting.p99
    assert found["planned"].replicas < found["w-choices"].replicas < found["shuffle"].replicas


def test_a_stream_uses_look_ahead_instead_of_planned():
    assert [streaming(scheme) for scheme in ("planned", "w-choices")] == ["look-ahead", "w-choices"]
