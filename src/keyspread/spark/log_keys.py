"""From the log to the key: count the key columns that a log named in the data, to know the hot keys as values."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keyspread.diagnosis.diagnosis import Diagnosis
from keyspread.diagnosis.stages.finding import Finding
from keyspread.errors import InputError
from keyspread.spark.capabilities import quiet_analysis
from keyspread.spark.diagnose import candidate_keys
from keyspread.spark.routing.keys import KeyColumn, key_columns, key_texts

_WORKERS = 200
_Key = tuple[tuple[str, ...], tuple[str, ...]]
"""The columns of a key, and what they are in the data: two queries may give one name to different things."""


def with_values(diagnoses: Sequence[Diagnosis], df: DataFrame, *, sample: float | None = None) -> list[Diagnosis]:
    """Return the diagnoses with the hot keys of every finding of skew, as far as the data has its columns.

    A key that the job computed (`customer % 50`) is computed again. A key that cannot be found in the data gets a note.
    """
    asked = {(_key(finding), _workers(finding)) for diagnosis in diagnoses for finding in diagnosis.skew}
    values: dict[tuple[_Key, int], tuple[dict[str, Any], ...]] = {}
    missing: dict[_Key, str] = {}
    for workers in sorted({workers for _, workers in asked}):
        keys: dict[_Key, list[KeyColumn]] = {}
        for key in sorted(key for key, needed in asked if needed == workers):
            try:
                keys[key] = _in_data(df, *key)
            except InputError as error:
                missing[key] = str(error)
        if keys:
            # One scan for all keys with this number of partitions.
            different = {tuple(key_texts(columns)): columns for columns in keys.values()}
            counted = candidate_keys(df, list(different.values()), workers, sample=sample)
            by_name = {finding.keys: finding.values for finding in counted.findings}
            values |= {(key, workers): by_name[tuple(key_texts(columns))] for key, columns in keys.items()}
    return [_filled(diagnosis, values, missing) for diagnosis in diagnoses]


def _workers(finding: Finding) -> int:
    return finding.partitions or finding.tasks or _WORKERS


def _in_data(df: DataFrame, columns: Sequence[str], definitions: Sequence[str]) -> list[KeyColumn]:
    """Return the key as columns of the data: those that the job read, or what it computed of them.

    The name of a key column alone is not enough: the job may have given it to something else.
    """
    names = {name.lower() for name in df.columns}
    key: list[KeyColumn] = []
    for name, definition in zip(columns, definitions, strict=True):
        if not definition:
            raise InputError(
                f"{name!r} is not counted: the log does not show that it is a column as it was read, nor exactly how "
                "it is computed; keyspread diagnose DATA --key COLUMN counts a column of the data"
            )
        if definition.lower() in names:
            key.append(definition)
            continue
        try:
            with quiet_analysis():
                df.select(F.expr(definition))
        except AnalysisException:
            what = f"column {name!r}" if definition == name else f"{definition!r}, which {name!r} is made of"
            raise InputError(f"the data has no {what}; its columns are {', '.join(df.columns)}") from None
        key.append(F.expr(definition))
    return list(key_columns(df, key))


def _filled(
    diagnosis: Diagnosis, values: dict[tuple[_Key, int], tuple[dict[str, Any], ...]], missing: dict[_Key, str]
) -> Diagnosis:
    findings = tuple(
        replace(finding, values=values.get((_key(finding), _workers(finding)), finding.values))
        for finding in diagnosis.findings
    )
    notes = dict.fromkeys(missing[key] for key in map(_key, diagnosis.skew) if key in missing)
    return replace(diagnosis, findings=findings, notes=(*diagnosis.notes, *notes))


def _key(finding: Finding) -> _Key:
    return finding.columns, finding.definitions
