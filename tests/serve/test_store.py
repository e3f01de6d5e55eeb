"""Nothing outside the store is reached, by whatever name, and by no link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nemesis.history.schemas import Kind
from nemesis.serve.store import NotInStoreError, Store, has_links, open_plain, shards
from tests.serve.stores import write_run


def test_runs_are_found_by_their_paths(store: Path) -> None:
    """Every run has one name, and the link to the latest none."""
    assert sorted(Store(store).names()) == [
        "append/20260102T030405",
        "append/20260103T030405",
        "register/20260104T030405",
    ]


def test_a_run_within_a_run_is_none(store: Path) -> None:
    """What a run keeps in its folder is never taken for another run."""
    write_run(store / "append" / "20260102T030405" / "nodes" / "inner")

    assert len(list(Store(store).names())) == 3


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "append",
        "append/..",
        "../outside",
        "append/../../outside",
        "/append/20260102T030405",
        "append//20260102T030405",
        "append/20260102T030405/",
        "append/./20260102T030405",
        "append/latest",
        "append/.hidden",
        "linked/20260102T030405",
        "append/20260102T030405\0",
        "a/" * 50 + "a",
    ],
)
def test_a_name_that_leads_elsewhere_names_no_run(store: Path, name: str) -> None:
    """Neither upwards, nor through a link, nor in a second spelling."""
    write_run(store.parent / "outside")
    write_run(store / "append" / ".hidden")
    (store / "linked").symlink_to("append")

    with pytest.raises(NotInStoreError):
        Store(store).folder(name)


def test_a_run_has_its_folder(store: Path) -> None:
    """The name that the list gives leads to the run."""
    assert Store(store).folder("append/20260102T030405") == store.resolve() / "append" / "20260102T030405"


def test_neither_links_nor_pipes_are_opened(tmp_path: Path) -> None:
    """A link to a file, a pipe that nobody writes to, and a folder are refused; a file is not."""
    (tmp_path / "file").write_text("here")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "absent", "."):
        with pytest.raises(NotInStoreError):
            open_plain(tmp_path / name)

    with open_plain(tmp_path / "file") as file:
        assert file.read() == b"here"


def test_a_shard_that_is_a_link_is_no_shard(tmp_path: Path) -> None:
    """It ends the table: what it leads to is not of this run."""
    run = write_run(tmp_path / "run", operations=30, shard_rows=10)
    shard = run / "history" / "part-00002.parquet"
    shard.rename(tmp_path / "elsewhere.parquet")
    shard.symlink_to(tmp_path / "elsewhere.parquet")

    assert [path.name for path in shards(run, Kind.HISTORY)] == ["part-00000.parquet", "part-00001.parquet"]
    assert has_links(run)


def test_a_table_that_is_a_link_has_no_shards(tmp_path: Path) -> None:
    """Nor is the folder of a table followed elsewhere."""
    run = write_run(tmp_path / "run")
    (run / "history").rename(tmp_path / "elsewhere")
    (run / "history").symlink_to(tmp_path / "elsewhere")

    assert shards(run, Kind.HISTORY) == []


def test_only_documents_of_the_store_itself_are_given(store: Path) -> None:
    """A sweep's document is one by its name alone; links and paths are none."""
    (store / "soak.json").write_text("{}")
    (store.parent / "secret.json").write_text("{}")
    (store / "linked.json").symlink_to(store.parent / "secret.json")
    opened = Store(store)

    assert list(opened.documents()) == ["soak.json"]
    for name in ("linked.json", "../secret.json", "append/20260102T030405/test.json"):
        with pytest.raises(NotInStoreError):
            opened.document(name)
