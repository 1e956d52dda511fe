"""The state machine of operators on a stream: some runs of `stream_machine.py`, which can do many more."""

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from stream_machine import STEPS, StreamMachine

from frames import needs_state


@needs_state
def test_the_machine_agrees_with_the_model():
    run_state_machine_as_test(StreamMachine, settings=settings(STEPS, max_examples=60))
