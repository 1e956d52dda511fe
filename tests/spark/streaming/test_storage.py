"""Folder: files are complete or absent, by path and by address."""

import os

import pytest

pytest.importorskip("pyspark")

from keyspread import InputError
from keyspread.run.sources import Folder
from keyspread.run.stream import check_same_run


@pytest.mark.parametrize("prefix", ["", "file://", "file:"])
def test_a_folder_by_path_and_by_address(tmp_path, prefix):
    folder = Folder(f"{prefix}{tmp_path}/new")
    assert folder.names() == []
    assert not folder.has("a")
    folder.write(b"one", "a", "b")
    folder.write(b"two", "a", "b")
    assert (folder.names(), folder.names("a"), folder.read("a", "b")) == (["a"], ["b"], b"two")
    assert folder.at("a", "b") == f"{prefix}{tmp_path}/new/a/b"
    assert os.listdir(tmp_path / "new" / "a") == ["b"]  # no hidden file is left
    folder.delete("a")
    assert not folder.has("a")
    with pytest.raises(OSError, match="a"):
        folder.read("a", "b")


@pytest.mark.parametrize("address", ["dbfs:/x", "myfs:/x", "myfs://host/x"])
def test_an_address_that_pyarrow_does_not_know_is_never_a_local_folder(tmp_path, monkeypatch, address):
    monkeypatch.chdir(tmp_path)
    for action in (lambda folder: folder.has("a"), lambda folder: folder.write(b"one", "a")):
        with pytest.raises(OSError, match=r"pyarrow has no file system for (dbfs|myfs):"):
            action(Folder(address))
    with pytest.raises(InputError, match=r"--checkpoint .* cannot be used .*: use a folder on this machine, or"):
        check_same_run(address, {})
    assert os.listdir(tmp_path) == []
