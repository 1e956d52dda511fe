"""What the tests of streams share: a way to write a file."""

import pytest


@pytest.fixture
def write(tmp_path):
    def write(data, name="stream.tsv"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    return write
