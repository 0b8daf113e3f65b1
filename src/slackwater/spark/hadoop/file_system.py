"""Hadoop file system, accessed through the JVM of a classic session.

Each JVM call is a round trip, and py4j transfers bytes as base64 text. A listing is therefore a few long texts. Larger
contents pass through a temporary local file, the method used by PySpark for rows. Source: Hadoop's FileSystem
specification ("rename", "create"); py4j.
"""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from slackwater.storage.location import Location
from slackwater.storage.store import ChunkedBytes

_SMALL_BYTES = 1 << 16

FAILURES = (Py4JError, PySparkException, OSError)
"""Errors of JVM calls and of the temporary local file."""


@dataclass(frozen=True, slots=True)
class Status:
    """A directory entry `name`."""

    name: str
    is_directory: bool
    size_bytes: int
    modified_ms: int


class HadoopFileSystem:
    """The file system of `origin` in the session `spark`. Paths are relative to its root; '' is the root.

    Calls raise FAILURES unchanged.
    """

    def __init__(self, spark: SparkSession, origin: Location) -> None:
        self.origin = origin
        self._spark: Any = spark
        self._jvm: Any = spark._jvm

    @functools.cached_property
    def _configuration(self) -> Any:
        # Include settings changed after the session's creation, like Spark's own readers.
        return self._spark._jsparkSession.sessionState().newHadoopConf()

    @functools.cached_property
    def _files(self) -> Any:
        return self._jvm.org.apache.hadoop.fs.FileSystem.get(self._path("").toUri(), self._configuration)

    @functools.cached_property
    def _path_class(self) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path

    @functools.cached_property
    def _io(self) -> Any:
        return self._jvm.org.apache.commons.io.IOUtils

    @functools.cached_property
    def _columns(self) -> _StatusColumns:
        return _StatusColumns(self._jvm)

    def status(self, path: str) -> Status:
        """Return the status of `path`."""
        found = self._files.getFileStatus(self._path(path))
        name = path.rpartition("/")[2]
        return Status(name, found.isDirectory(), found.getLen(), found.getModificationTime())

    def statuses(self, path: str) -> list[Status]:
        """Return the entries of the directory `path`. A file lists itself."""
        return self._columns.rows(self._files.listStatus(self._path(path)))

    def read(self, path: str, start: int, length: int | None) -> bytes:
        """Return `length` bytes from `start`, fewer at the end of the file. Without a `length`, read to the end."""
        stream = self._files.open(self._path(path))
        try:
            if start:
                stream.seek(start)
            wanted = _SMALL_BYTES if length is None else min(length, _SMALL_BYTES)
            if length is not None and length > _SMALL_BYTES:
                return self._handed_over(stream, length)
            head = bytes(stream.readNBytes(wanted))
            if length is not None or len(head) < _SMALL_BYTES:
                return head
            return head + self._handed_over(stream, None)
        finally:
            stream.close()

    def create(self, path: str, data: bytes | ChunkedBytes | Path, durable: bool) -> None:
        """Create a file from bytes or a local file, including parent directories."""
        with self._new(path, durable) as stream:
            if isinstance(data, Path):
                self._copy_local(data, stream)
            elif isinstance(data, bytes) and len(data) <= _SMALL_BYTES:
                stream.write(data)
            else:
                with self._local_file() as file:
                    with file.open("wb") as local:
                        local.writelines(data if isinstance(data, ChunkedBytes) else [data])
                    self._copy_local(file, stream)

    def create_copy(self, path: str, src: str) -> None:
        """Create a file with the bytes of the file `src`."""
        source = self._files.open(self._path(src))
        try:
            with self._new(path, durable=True) as stream:
                self._io.copyLarge(source, stream)
        finally:
            source.close()

    def rename(self, src: str, dst: str, replace: bool) -> None:
        """Rename in one step. Without `replace`, an existing file stays and the call fails."""
        # A nested class has no attribute in py4j.
        rename = getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename")
        options = self._spark.sparkContext._gateway.new_array(rename, 1)
        options[0] = rename.OVERWRITE if replace else rename.NONE
        self._files.rename(self._path(src), self._path(dst), options)

    def delete(self, path: str, recursive: bool = False) -> None:
        """Delete a file or directory, with its contents if `recursive`. A missing path is not an error."""
        self._files.delete(self._path(path), recursive)

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents if missing."""
        self._files.mkdirs(self._path(path))

    def resolved(self, path: str) -> Location:
        """Return the location of `path` after resolution of mount points and links."""
        uri = self._files.resolvePath(self._path(path)).toUri()
        return Location(uri.getScheme(), uri.getAuthority() or "", uri.getPath().strip("/"))

    def _path(self, path: str) -> Any:
        return self._path_class(self.origin.scheme, self.origin.authority, f"/{path}")

    @contextlib.contextmanager
    def _new(self, path: str, durable: bool) -> Iterator[Any]:
        stream = self._files.create(self._path(path), False)
        try:
            yield stream
            if durable:
                stream.hsync()
        except BaseException:
            with contextlib.suppress(*FAILURES):
                stream.close()
            raise
        stream.close()

    def _handed_over(self, stream: Any, length: int | None) -> bytes:
        """Return the rest of a stream, at most `length` bytes, through a local file."""
        with self._local_file() as file:
            target = self._jvm.java.io.FileOutputStream(str(file))
            try:
                if length is None:
                    self._io.copyLarge(stream, target)
                else:
                    self._io.copyLarge(stream, target, 0, length)
            finally:
                target.close()
            return file.read_bytes()

    def _copy_local(self, file: Path, stream: Any) -> None:
        source = self._jvm.java.io.FileInputStream(str(file.absolute()))
        try:
            self._io.copyLarge(source, stream)
        finally:
            source.close()

    @contextlib.contextmanager
    def _local_file(self) -> Iterator[Path]:
        descriptor, name = tempfile.mkstemp(dir=self._spark.sparkContext._temp_dir)
        os.close(descriptor)
        try:
            yield Path(name)
        finally:
            Path(name).unlink(missing_ok=True)


class _StatusColumns:
    """Converts an array of Java's FileStatus objects in the JVM, all elements in one pass.

    Separate calls would cost several round trips for each element. Java functions are built from method handles.
    """

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._list, self._join = jvm.java.util.ArrayList, jvm.org.apache.hadoop.util.StringUtils.join
        class_of, long, boolean = jvm.java.lang.Class.forName, jvm.java.lang.Long.TYPE, jvm.java.lang.Boolean.TYPE
        status, path = class_of("org.apache.hadoop.fs.FileStatus"), class_of("org.apache.hadoop.fs.Path")
        self._names = (
            self._function(status, "getPath", path),
            self._function(path, "getName", class_of("java.lang.String")),
        )
        self._are_directories = (self._function(status, "isDirectory", boolean),)
        self._sizes = (self._function(status, "getLen", long),)
        self._times = (self._function(status, "getModificationTime", long),)

    def rows(self, array: Any) -> list[Status]:
        """Return one row for each element of a Java array."""
        if not len(array):
            return []
        sequence = self._jvm.scala.runtime.ScalaRunTime.genericWrapArray(array)
        found = self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(sequence)
        columns = (self._names, self._are_directories, self._sizes, self._times)
        names, directories, sizes, times = (self._texts(found, functions) for functions in columns)
        rows = zip(names, directories, sizes, times, strict=True)
        return [Status(name, directory == "true", int(size), int(time)) for name, directory, size, time in rows]

    def _texts(self, found: Any, functions: tuple[Any, ...]) -> list[str]:
        values = self._list(found)
        for function in functions:
            values.replaceAll(function)
        # File names never contain NUL.
        return str(self._join("\0", values)).split("\0")

    def _function(self, owner: Any, method: str, result: Any) -> Any:
        invoke = self._jvm.java.lang.invoke
        handle = invoke.MethodHandles.publicLookup().findVirtual(owner, method, invoke.MethodType.methodType(result))
        operator = self._jvm.java.lang.Class.forName("java.util.function.UnaryOperator")
        return invoke.MethodHandleProxies.asInterfaceInstance(operator, handle)
