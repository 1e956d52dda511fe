"""Run the lines of code that a diagnosis suggests, on the DataFrames of the job."""

import tempfile
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import keyspread
import keyspread.spark
from keyspread import Operator
from keyspread.diagnosis import Diagnosis


class MyOperator(Operator[int]):
    """Counts the rows of a key."""

    schema = "rows long"

    def zero(self) -> int:
        return 0

    def update(self, state: int, rows: pd.DataFrame) -> int:
        return state + len(rows)

    def merge(self, state: int, other: int) -> int:
        return state + other

    def finish(self, state: int) -> dict[str, Any]:
        return {"rows": state}


def lines_that_fail(diagnosis: Diagnosis, names: dict[str, Any]) -> list[str]:
    """Return the lines that are not valid or do not run, with the reason."""
    failed = []
    for finding in diagnosis.skew:
        for remedy in finding.remedies:
            if not remedy.code:
                continue
            known = {"keyspread": keyspread, "F": F, "MyOperator": MyOperator, **names}
            known |= {"f": lambda left, right=None: left, "schema": next(iter(names.values())).schema}
            spark = known["spark"] = next(iter(names.values())).sparkSession
            before = {}
            if "(stream," in remedy.code:  # the remedy says which settings it needs
                wanted = keyspread.spark.stream_settings(finding.partitions or 1)
                before = {name: spark.conf.get(name, None) for name in wanted}
                for name, value in wanted.items():
                    spark.conf.set(name, str(value))
            try:
                result = eval(compile(remedy.code, "line", "eval"), known)
                if result is not None and result.isStreaming:
                    _run_stream(result)
                elif result is not None:
                    result.count()
            except Exception as error:
                failed.append(f"{remedy.code}: {type(error).__name__}: {str(error).splitlines()[0][:150]}")
            for name, value in before.items():
                if value is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, value)
    return failed


def _run_stream(df: DataFrame) -> None:
    with tempfile.TemporaryDirectory() as folder:
        query = df.writeStream.format("noop").option("checkpointLocation", folder).outputMode("update")
        query.trigger(availableNow=True).start().awaitTermination()
