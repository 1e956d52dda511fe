"""Folder and identity: files are complete or absent, and a folder of another query is refused."""

import os

import pytest

pytest.importorskip("pyspark")

from keyspread import InputError
from keyspread.spark.streaming.identity import check_identity, difference
from keyspread.spark.streaming.storage import Folder


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


def test_only_fields_of_the_new_query_are_compared():
    assert difference({"key": ["k"], "scheme": "key"}, {"key": ["k"]}) is None
    changed = difference({"key": ["k"], "workers": 3}, {"key": ["k"], "workers": 4, "window": "1 hour"})
    assert changed == (
        "this belongs to another query (workers was 3 and is now 4, window was None and is now '1 hour'): "
        "resume that query unchanged, or use a new folder"
    )


def test_a_folder_remembers_whose_it_is(tmp_path):
    folder = Folder(str(tmp_path))
    check_identity(folder, "id.json", {"key": "a"}, used=False)
    check_identity(folder, "id.json", {"key": "a"}, used=True)
    with pytest.raises(InputError, match="key was 'a' and is now 'b'"):
        check_identity(folder, "id.json", {"key": "b"}, used=True)
    check_identity(folder, "id.json", {"key": "b"}, used=False)  # nothing was written by the other query
    assert folder.read("id.json") == b'{"key": "b"}'
    folder.write(b"damaged", "id.json")
    check_identity(folder, "id.json", {"key": "c"}, used=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"not writable .*; choose a folder that you can write to"):
        check_identity(Folder(str(tmp_path / "file")), "id.json", {}, used=False)
