"""Folders and files on any file system that Spark knows, such as hdfs and s3a, used as a ``Path`` is.

Owns the calls of Hadoop's ``FileSystem`` in the JVM of a session, and what its errors are here: OSError. Names, small
files and the ends of large ones are read here; rows are read by the workers.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def place_of(spark: SparkSession | None, place: Path | str) -> Path:
    """A place by its URL, which a session must read, or a path of this machine as it is."""
    if not is_url(place):
        return Path(place)
    assert spark is not None, f"{place}: a path without a session"
    # It has of a Path what a run folder is read by, and no more.
    return cast("Path", HadoopPath(spark, str(place)))


def is_url(place: Path | str) -> bool:
    """Whether a place is named with its file system."""
    return isinstance(place, str) and "://" in place


class HadoopPath:
    """One place, by its URL. Two are equal if their URLs are."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        jvm = getattr(spark, "_jvm", None)
        if jvm is None:
            raise OSError(f"{url}: a Spark Connect server shows no file systems; give paths that are readable here")
        self._spark, self._jvm = spark, jvm
        with _os_errors(url):
            path = jvm.org.apache.hadoop.fs.Path(url)
            self._files = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
            self._path = self._files.makeQualified(path)
        self._url = str(self._path.toString())

    def __str__(self) -> str:
        return self._url

    def __truediv__(self, name: str) -> HadoopPath:
        return HadoopPath(self._spark, f"{self._url.rstrip('/')}/{name}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HadoopPath) and self._url == other._url

    def __hash__(self) -> int:
        return hash(self._url)

    @property
    def name(self) -> str:
        """The last part."""
        return str(self._path.getName())

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the path, without the file system."""
        return PurePosixPath(str(self._path.toUri().getPath())).parts

    def resolve(self) -> HadoopPath:
        """The same: it is qualified, and links are the file system's own affair."""
        return self

    def is_dir(self) -> bool:
        """Whether a folder is there."""
        with _os_errors(self._url):
            return bool(self._files.exists(self._path) and self._files.getFileStatus(self._path).isDirectory())

    def is_file(self) -> bool:
        """Whether a file is there."""
        with _os_errors(self._url):
            return bool(self._files.exists(self._path) and self._files.getFileStatus(self._path).isFile())

    def iterdir(self) -> Iterator[HadoopPath]:
        """What is in the folder."""
        with _os_errors(self._url):
            found = [str(status.getPath().getName()) for status in self._files.listStatus(self._path)]
        return (self / name for name in found)

    def read_text(self, encoding: str) -> str:
        """A small file."""
        with self.open("rb") as file:
            return file.read().decode(encoding)

    def unlink(self, missing_ok: bool) -> None:
        """Delete the file; where there is none, that is fine."""
        assert missing_ok, self._url
        with _os_errors(self._url):
            self._files.delete(self._path, False)

    def write_text(self, text: str, encoding: str, errors: str) -> None:
        """Write a small file, anew if it is there."""
        with _os_errors(self._url):
            stream = self._files.create(self._path, True)
            try:
                stream.write(bytearray(text.encode(encoding, errors)))
            finally:
                stream.close()

    def replace(self, target: HadoopPath) -> None:
        """Give the file this name, in the place of what has it."""
        with _os_errors(self._url):
            self._files.delete(target._path, False)
            if not self._files.rename(self._path, target._path):
                raise OSError(f"{self._url} cannot be renamed to {target}")

    def open(self, mode: str) -> io.BufferedReader:
        """The file as bytes, to be read anywhere in it."""
        assert mode == "rb", f"{mode}: it is read only, and as bytes"
        with _os_errors(self._url):
            length = int(self._files.getFileStatus(self._path).getLen())
            raw = _Stream(self._jvm, self._files.open(self._path), length)
        return io.BufferedReader(raw, buffer_size=_READ_BYTES)


_READ_BYTES = 64 * 1024


class _Stream(io.RawIOBase):
    """An open file of Hadoop's."""

    def __init__(self, jvm: Any, stream: Any, length: int) -> None:
        self._jvm, self._stream, self._length, self._place = jvm, stream, length, 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place."""
        begins = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._length}
        self._place = begins[whence] + offset
        return self._place

    def tell(self) -> int:
        """Where it is."""
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer, or as much of it as there is."""
        size = max(0, min(len(buffer), self._length - self._place))
        if size:
            with _os_errors("reading"):
                self._stream.seek(self._place)
                buffer[:size] = self._jvm.org.apache.commons.io.IOUtils.toByteArray(self._stream, size)
        self._place += size
        return size

    def close(self) -> None:
        """Let the JVM close it, too."""
        if not self.closed:
            self._stream.close()
        super().close()


class _os_errors:  # noqa: N801 - it is used like a function
    """Within, what Java throws is an OSError that says the same."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        from py4j.protocol import Py4JJavaError

        if isinstance(error, Py4JJavaError):
            raise OSError(f"{self._where}: {error.java_exception.toString()}") from error
