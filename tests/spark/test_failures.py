"""Errors of Spark in one line."""

import pytest

pytest.importorskip("pyspark")

from keyspread.spark._engine.failures import why


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Spark gave no reason"),
        (
            "[UNRESOLVED_COLUMN] A column `a` cannot be resolved. SQLSTATE: 42703; line 1 pos 4;\n'Project",
            "A column `a` cannot be resolved.",
        ),
        (
            "An error occurred while calling o4.count.\n: org.apache.spark.SparkException: Job aborted\n\tat a.b(C)\n"
            "Caused by: java.io.IOException: outer\n\tat x\nCaused by: java.util.zip.ZipException: inner\n\tat y",
            "ZipException: inner",
        ),
        (
            "Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: "
            "Lost task 0.0 in stage 3.0 (TID 3) (host executor driver): java.io.IOException: full\n\tat x",
            "java.io.IOException: full",
        ),
        (
            "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n  File x\n"
            "keyspread.errors.InputError: workers must be at least 1\n",
            "workers must be at least 1",
        ),
        ("x" * 1000, "x" * 299 + "…"),
    ],
)
def test_why_is_one_line(text, reason):
    assert why(text) == reason
