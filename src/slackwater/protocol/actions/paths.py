"""Paths of file actions: URI-encoded, absolute or relative to the table's root.

Source: delta-protocol.md "Add File and Remove File" (`path` is a URI that must be decoded), RFC 2396.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote, unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.errors import PathNotAllowed

# The number of bytes copied and searched in one step, so that they fit into the processor's cache.
_BLOCK_BYTES = 1 << 20
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:")
# Aliases of one store in Hadoop. The reader of a log may use another alias than its writer.
_ONE_STORE = {"s3a": "s3", "s3n": "s3", "abfss": "abfs"}
# Some systems treat a backslash as a slash.
_SEPARATOR = re.compile(r"[/\\]")
_PLAIN = re.compile(r"[A-Za-z0-9_.=/\-\0]*")
_PLAIN_BYTES = bytes(code for code in range(1, 128) if _PLAIN.fullmatch(chr(code)))
# Length of a path's end in bytes: longer than a UUID and `.c000.snappy.parquet`.
_END_BYTES, _WORD = 64, 8
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
# Substrings of NUL-separated paths with an irregular path: an invalid start or end, or an empty or dotted segment.
_ODD = ("\0/", "/\0", "\0\0", "//", "\0.", "/.")

PathEnds = tuple[str, npt.NDArray[np.uint64]]


def canonical_path(path: str) -> str:
    """Return the canonical form of `path`, equal for all spellings of one file.

    The canonical form is decoded, and `file:` URLs become plain paths.
    """
    decoded = unquote(path)
    if path.startswith("file:"):
        rest = decoded.removeprefix("file:")
        if rest.startswith("//"):
            rest = "/" + rest[2:].partition("/")[2]
        return rest
    return decoded.removeprefix("./")


def canonical_paths(paths: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Return `canonical_path` of every element.

    Plain relative paths, the common case, need only one scan of the bytes.
    """
    chunks = paths.chunks if isinstance(paths, pa.ChunkedArray) else [paths]
    if not any(_may_need_care(chunk) for chunk in chunks):
        return paths
    import pyarrow.compute as pc

    is_url = pc.starts_with(paths, "file:")
    if not any(map(_may_be_encoded, chunks)) and not pc.any(pc.starts_with(paths, "file://")).as_py():
        without_scheme = pc.if_else(is_url, pc.utf8_slice_codeunits(paths, len("file:")), paths)
        is_dotted = pc.starts_with(paths, "./")
        return pc.if_else(is_dotted, pc.utf8_slice_codeunits(paths, len("./")), without_scheme)
    care = pc.or_(pc.match_substring(paths, "%"), pc.or_(is_url, pc.starts_with(paths, "./")))
    return pa.array(
        [canonical_path(p) if c else p for p, c in zip(paths.to_pylist(), care.to_pylist(), strict=True)],
        pa.string(),
    )


def _may_need_care(chunk: pa.Array) -> bool:
    """Return whether a path of `chunk` may differ from its canonical form.

    Scans the bytes of all paths at once, because a text kernel handles each path separately.
    """
    if not len(chunk) or _may_be_encoded(chunk):
        return len(chunk) > 0
    offsets, data = _text_buffers(chunk)
    if data is None:
        return False
    starts = offsets[:-1][np.diff(offsets) > 1]
    text = np.frombuffer(data, np.uint8)
    return bool(_begin_with(b"./", starts, text) or _begin_with(b"file:", starts, text))


def _may_be_encoded(chunk: pa.Array) -> bool:
    if not pa.types.is_string(chunk.type):
        return len(chunk) > 0
    offsets, data = _text_buffers(chunk)
    if data is None:
        return False
    whole = memoryview(data)[offsets[0] : offsets[-1]]
    return any(b"%" in bytes(whole[start : start + _BLOCK_BYTES]) for start in range(0, len(whole), _BLOCK_BYTES))


def _text_buffers(texts: pa.Array) -> tuple[npt.NDArray[np.int32], pa.Buffer | None]:
    """Return the start offset of each text, with the end of the last text appended, and the data buffer.

    The buffer is None if there is no text.
    """
    if not len(texts):
        return np.zeros(1, np.int32), None
    _, offset_buffer, data = texts.buffers()
    return np.frombuffer(offset_buffer, np.int32)[texts.offset : texts.offset + len(texts) + 1], data


def _begin_with(prefix: bytes, starts: npt.NDArray[np.int32], text: npt.NDArray[np.uint8]) -> bool:
    """Return whether a text at one of `starts` may begin with `prefix`."""
    for position, byte in enumerate(prefix):
        starts = starts[starts + position < len(text)]
        starts = starts[text[starts + position] == byte]
    return len(starts) > 0


def are_distinct(paths: pa.ChunkedArray) -> bool:
    """Return whether all `paths` are of different files.

    Compares only the ends of the paths if the ends are distinct, like the file names of Spark.
    """
    if are_distinct_ends([path_ends(chunk) for chunk in paths.chunks if len(chunk)]):
        return True
    import pyarrow.compute as pc

    return bool(pc.count_distinct(canonical_paths(paths)).as_py() == len(paths))


def are_distinct_ends(found: Sequence[PathEnds | None]) -> bool:
    """Return whether the paths are certainly of different files. `found` has the `path_ends` of each chunk of paths."""
    ends = [each for each in found if each is not None]
    if len(ends) < len(found) or len({spelling for spelling, _ in ends}) != 1:
        return False
    numbers = np.sort(np.concatenate([each for _, each in ends]))
    return bool((numbers[1:] != numbers[:-1]).all())


def path_ends(chunk: pa.Array) -> PathEnds | None:
    """Return the prefix of all paths before their canonical form, and a number per path from its last bytes.

    Different numbers imply different ends. Returns None if the paths differ in their prefix, or if a path is too short.
    """
    if chunk.null_count or _may_be_encoded(chunk):
        return None
    offsets, data = _text_buffers(chunk)
    if data is None or (np.diff(offsets) < _END_BYTES).any():
        return None
    starts, text = offsets[:-1], np.frombuffer(data, np.uint8)
    if not (_begin_with(b"./", starts, text) or _begin_with(b"file:", starts, text)):
        spelling = ""
    elif all((text[starts + at] == byte).all() for at, byte in enumerate(b"file:/")) and (
        (text[starts + len(b"file:/")] != ord("/")).all()
    ):
        spelling = "file:"
    else:
        return None
    words: npt.NDArray[np.uint64] = np.ndarray(len(text) - _WORD + 1, np.uint64, data, strides=(1,))
    numbers = np.zeros(len(chunk), np.uint64)
    for back in range(_END_BYTES, 0, -_WORD):
        numbers = numbers * _MULTIPLIER + words[offsets[1:] - back]
    return spelling, numbers


def are_plain(paths: Sequence[str]) -> bool:
    """Return whether all `paths` are relative, below the root, and equal in the log, in URIs and in globs.

    Checks all paths as one text, because a check of each path is much slower. False is inconclusive.
    """
    text = "\0".join(["", *paths, ""])
    if text.count("\0") != len(paths) + 1 or _PLAIN.fullmatch(text) is None:
        return False
    return not paths or not any(odd in text for odd in _ODD)


def are_plain_texts(paths: pa.ChunkedArray) -> bool:
    """Return the result of `are_plain` for the texts of a column."""
    return all(_are_plain(chunk) for chunk in paths.chunks if len(chunk))


def _are_plain(chunk: pa.Array) -> bool:
    if chunk.null_count or not pa.types.is_string(chunk.type):
        return False
    offsets, data = _text_buffers(chunk)
    if data is None or not np.diff(offsets).all():
        return False
    whole = bytes(memoryview(data)[offsets[0] : offsets[-1]])
    if whole.translate(None, _PLAIN_BYTES):
        return False
    text, starts, ends = np.frombuffer(whole, np.uint8), offsets[:-1] - offsets[0], offsets[1:] - offsets[0] - 1
    # Finding the bytes after slashes with numpy is faster than a search for each pair of bytes.
    behind_slashes = text[np.flatnonzero(text[:-1] == ord("/")) + 1]
    begins = np.concatenate([text[starts], behind_slashes])
    return not ((begins == ord("/")).any() or (begins == ord(".")).any() or (text[ends] == ord("/")).any())


def is_absolute(path: str) -> bool:
    """Return whether a canonical or encoded path is absolute, not relative to the table's root."""
    return path.startswith("/") or _SCHEME.match(path) is not None


def with_one_scheme(url: str) -> str:
    """Return `url` with a canonical scheme: `s3a` and `s3n` become `s3`, `abfss` becomes `abfs`."""
    scheme, colon, rest = url.partition(":")
    # Skip the regular expression for plain paths, the common case.
    one = scheme.lower() if colon and _SCHEME.match(url) else scheme
    return f"{_ONE_STORE.get(one, one)}{colon}{rest}"


def checked_data_path(path: str, root_url: str, local_root: str | None, allow_outside: bool) -> str:
    """Return the decoded location of the file at `path` (from the log): relative to the root, or absolute if outside.

    An absolute path inside the root becomes relative, also with another scheme of the same store. Raises PathNotAllowed
    for an absolute path outside the root unless `allow_outside` is true. Always raises PathNotAllowed for a path with
    '..', or for a path that cannot be a file.
    """
    canonical = canonical_path(path)
    if not is_absolute(canonical):
        return checked_relative_path(canonical, root_url, path)
    named = with_one_scheme(canonical)
    for root in (with_one_scheme(unquote(root_url)), local_root):
        if root and named.startswith(root + "/"):
            # The remainder may look absolute (`/root//etc/x`), so it is checked again.
            return checked_relative_path(named[len(root) + 1 :], root_url, path)
    if not allow_outside:
        raise PathNotAllowed(
            f"{root_url}: the log names the file {path!r} outside the table's root. Such a path is not followed here. "
            "If you trust the table, set the option allowPathsOutsideRoot to true (allow_paths_outside_root=True in "
            "Python)"
        )
    _require_file(canonical, root_url, path)
    return canonical


def checked_relative_path(relative: str, root_url: str, named: str | None = None) -> str:
    """Return the decoded path `relative` if it is a file below the root. `named` is the path in the log, for messages.

    Raises PathNotAllowed if the path is absolute or a URL, contains '..', or cannot be a file.
    """
    path = relative if named is None else named
    if is_absolute(relative):
        raise PathNotAllowed(
            f"{root_url}: the log names the file {path!r}, which hides an absolute path. The file must be below the "
            "table's root. Such a path is never followed"
        )
    _require_file(relative, root_url, path)
    return relative


def _require_file(decoded: str, root_url: str, path: str) -> None:
    if ".." in _SEPARATOR.split(decoded):
        raise PathNotAllowed(
            f"{root_url}: the log names the file {path!r}, which climbs out of the table's root with '..'. Such a path "
            "is never followed"
        )
    # Reject directories, because a reader of a directory reads all files in it.
    if decoded.rpartition("/")[2] in ("", ".") or "\0" in decoded:
        raise PathNotAllowed(
            f"{root_url}: the log names the file {path!r}, which is not a file path: it is empty, ends with a slash, "
            "or contains a NUL. Such a path is never followed"
        )


def encode_path(path: str) -> str:
    """Return a relative path in the encoding of the log: percent-encoded, except `/` and `=`."""
    return quote(path, safe="/=:@!$&'()*+,;-._~")
