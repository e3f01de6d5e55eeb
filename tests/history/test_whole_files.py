"""Small files of a run's folder are written whole, and nowhere else."""

from __future__ import annotations

from pathlib import Path

from nemesis.history.whole_files import write_whole


def test_a_link_that_somebody_left_there_is_not_followed(tmp_path: Path) -> None:
    """A folder may come from elsewhere: what is written there changes nothing outside."""
    outside = tmp_path / "outside"
    outside.write_text("mine")
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("report.html", ".report.html.unfinished"):
        (folder / name).symlink_to(outside)
    written = write_whole(folder, "report.html", "page")
    assert (written.read_text(), written.is_symlink()) == ("page", False)
    assert outside.read_text() == "mine"
    assert [path.name for path in folder.iterdir()] == ["report.html"]


def test_what_no_encoding_has_is_written_as_its_escape(tmp_path: Path) -> None:
    """Half of a surrogate pair in a recorded text makes no file impossible."""
    assert write_whole(tmp_path, "page", "a\ud800b").read_bytes() == b"a\\ud800b"
