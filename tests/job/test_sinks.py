"""Where results are written."""

import pytest

pytest.importorskip("pyspark")

from keyspread.job.sinks import Target, check_apart, find_target

from keyspread.errors import InputError
from keyspread.job.stream_job import Results, find_results


def test_results_never_replace_a_folder_with_the_source_in_it(tmp_path):
    target = Target(str(tmp_path / "out"), "parquet", True, True)
    for source in (f"{tmp_path}/out", f"{tmp_path}/out/part-0.parquet", f"file://{tmp_path}/out/part-0.parquet"):
        with pytest.raises(InputError, match="out contains the input: choose another folder"):
            check_apart(target, source)
    for source in (f"{tmp_path}/out2", f"{tmp_path}/out.csv"):
        check_apart(target, source)


@pytest.mark.parametrize("address", ["dbfs:/out", "hdfs:/out", "hdfs://host/out"])
def test_an_address_is_never_a_local_folder(tmp_path, monkeypatch, address):
    monkeypatch.chdir(tmp_path)
    assert find_target(address) == Target(address, "parquet", False, local=False)
    assert find_results(address, None, resumes=False) == Results(address, "parquet")


@pytest.mark.parametrize("address", ["{}/out", "file:{}/out", "file://{}/out", "out"])
def test_a_path_on_this_machine(tmp_path, monkeypatch, address):
    monkeypatch.chdir(tmp_path)
    assert find_target(address.format(tmp_path)) == Target(str(tmp_path / "out"), "parquet", False, local=True)
    assert find_results(address.format(tmp_path), None, resumes=False) == Results(str(tmp_path / "out"), "parquet")
