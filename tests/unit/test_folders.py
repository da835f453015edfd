"""Folders appear whole or not at all."""

import pytest

from graphwright.errors import GraphFileError
from graphwright.files import writing_folder


def names(path):
    return sorted(p.name for p in path.iterdir())


def test_a_folder_appears_when_it_is_complete(tmp_path):
    with writing_folder(tmp_path / "made") as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "a").write_text("1")
        assert not (tmp_path / "made").exists()
    assert (tmp_path / "made" / "inner" / "a").read_text() == "1"
    assert names(tmp_path) == ["made"]


def test_one_that_is_there_is_replaced(tmp_path):
    for content in "ab":
        with writing_folder(tmp_path / "made") as folder:
            (folder / content).write_text(content)
    assert names(tmp_path / "made") == ["b"]
    assert names(tmp_path) == ["made"]


def test_what_fails_leaves_the_old_one(tmp_path):
    with writing_folder(tmp_path / "made") as folder:
        (folder / "a").write_text("a")

    def fail(folder):
        (folder / "b").write_text("b")
        raise KeyError

    with pytest.raises(KeyError), writing_folder(tmp_path / "made") as folder:
        fail(folder)
    assert names(tmp_path / "made") == ["a"]
    assert names(tmp_path) == ["made"]


def test_a_plain_file_in_its_place_stays(tmp_path):
    (tmp_path / "made").write_text("file")
    with pytest.raises(GraphFileError, match="cannot write"), writing_folder(tmp_path / "made"):
        pass
    assert (tmp_path / "made").read_text() == "file"
    assert names(tmp_path) == ["made"]
