"""Where results are written."""

import pytest

pytest.importorskip("pyspark")

from keyspread.errors import InputError
from keyspread.job.sinks import Target, check_apart


def test_results_never_replace_a_folder_with_the_source_in_it(tmp_path):
    target = Target(str(tmp_path / "out"), "parquet", True, True)
    for source in (f"{tmp_path}/out", f"{tmp_path}/out/part-0.parquet", f"file://{tmp_path}/out/part-0.parquet"):
        with pytest.raises(InputError, match="out contains the input: choose another folder"):
            check_apart(target, source)
    for source in (f"{tmp_path}/out2", f"{tmp_path}/out.csv"):
        check_apart(target, source)
