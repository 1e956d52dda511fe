"""What the Spark tests share as fixtures; see frames.py for the rest."""

import pytest

from frames import setting


@pytest.fixture
def static(spark):
    """No adaptive execution: faster, for tests that are not about it."""
    with setting(spark, "spark.sql.adaptive.enabled", "false"):
        yield
