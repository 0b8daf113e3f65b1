"""The paths that file actions carry: URI-encoded, relative to the table's root or absolute.

Source: delta-protocol.md "Add File and Remove File" (`path` is a URI that must be decoded), RFC 2396.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote, unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import PathNotAllowed

# What is copied at a time to be searched: it should fit a processor's cache.
_BLOCK_BYTES = 1 << 20
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:")
# Hadoop's names of one store: the writer of a log took one of them, its reader may come by another.
_ONE_STORE = {"s3a": "s3", "s3n": "s3", "abfss": "abfs"}
# Some systems take a backslash for a slash.
_SEPARATOR = re.compile(r"[/\\]")
_PLAIN = re.compile(r"[A-Za-z0-9_.=/\-\0]*")
_PLAIN_BYTES = bytes(code for code in range(1, 128) if _PLAIN.fullmatch(chr(code)))
# The last bytes of a path: a UUID and `.c000.snappy.parquet` are fewer.
_END_BYTES, _WORD = 64, 8
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
# Of paths between NULs: one that begins or ends as none of a file below the root does, or has an odd part.
_ODD = ("\0/", "/\0", "\0\0", "//", "\0.", "/.")

PathEnds = tuple[str, npt.NDArray[np.uint64]]


def canonical_path(path: str) -> str:
    """The form of `path` in which two spellings of one file are equal: decoded, `file:` URLs as plain paths."""
    decoded = unquote(path)
    if path.startswith("file:"):
        rest = decoded.removeprefix("file:")
        if rest.startswith("//"):
            rest = "/" + rest[2:].partition("/")[2]
        return rest
    return decoded.removeprefix("./")


def canonical_paths(paths: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """`canonical_path` of every element; plain relative ones, nearly all there are, cost one look at their bytes."""
    chunks = paths.chunks if isinstance(paths, pa.ChunkedArray) else [paths]
    if not any(_may_need_care(chunk) for chunk in chunks):
        return paths
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
    """Whether some path of `chunk` may be spelled otherwise than it would be canonically.

    A text kernel looks at each path by itself; this looks at the bytes of all of them at once.
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
    """Where each text begins in the bytes of all, and where the last one ends; and these bytes, None for none."""
    if not len(texts):
        return np.zeros(1, np.int32), None
    _, offset_buffer, data = texts.buffers()
    return np.frombuffer(offset_buffer, np.int32)[texts.offset : texts.offset + len(texts) + 1], data


def _begin_with(prefix: bytes, starts: npt.NDArray[np.int32], text: npt.NDArray[np.uint8]) -> bool:
    """Whether a text at one of `starts` may begin with `prefix`."""
    for position, byte in enumerate(prefix):
        starts = starts[starts + position < len(text)]
        starts = starts[text[starts + position] == byte]
    return len(starts) > 0


def are_distinct(paths: pa.ChunkedArray) -> bool:
    """Whether no two of `paths` are of one file: where their ends differ, as those of Spark's names do, at no cost."""
    if are_distinct_ends([path_ends(chunk) for chunk in paths.chunks if len(chunk)]):
        return True
    return bool(pc.count_distinct(canonical_paths(paths)).as_py() == len(paths))


def are_distinct_ends(found: Sequence[PathEnds | None]) -> bool:
    """Whether it is certain of the paths of which `path_ends` are `found` that no two are of one file."""
    ends = [each for each in found if each is not None]
    if len(ends) < len(found) or len({spelling for spelling, _ in ends}) != 1:
        return False
    numbers = np.sort(np.concatenate([each for _, each in ends]))
    return bool((numbers[1:] != numbers[:-1]).all())


def path_ends(chunk: pa.Array) -> PathEnds | None:
    """What all paths of `chunk` have before their canonical form, and numbers that differ only where their ends do.

    None where paths are spelled in several ways, or are short.
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
    """Whether each of `paths` is relative, of a file below the root, and written alike in the log, in URIs and globs.

    Looks at all of them as one text: for many paths far less than to look at each. False tells nothing.
    """
    text = "\0".join(["", *paths, ""])
    if text.count("\0") != len(paths) + 1 or _PLAIN.fullmatch(text) is None:
        return False
    return not paths or not any(odd in text for odd in _ODD)


def are_plain_texts(paths: pa.ChunkedArray) -> bool:
    """As `are_plain`, of the texts of a column."""
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
    # Numpy finds two bytes in a row sooner than a search for both does.
    behind_slashes = text[np.flatnonzero(text[:-1] == ord("/")) + 1]
    begins = np.concatenate([text[starts], behind_slashes])
    return not ((begins == ord("/")).any() or (begins == ord(".")).any() or (text[ends] == ord("/")).any())


def is_absolute(path: str) -> bool:
    """Whether a canonical or encoded path names a file by itself, not relative to the table's root."""
    return path.startswith("/") or _SCHEME.match(path) is not None


def with_one_scheme(url: str) -> str:
    """`url`, where its scheme is one of several that lead to one place (`s3a`, `s3n`; `abfss`) with one of them."""
    scheme, colon, rest = url.partition(":")
    # Most are paths.
    one = scheme.lower() if colon and _SCHEME.match(url) else scheme
    return f"{_ONE_STORE.get(one, one)}{colon}{rest}"


def checked_data_path(path: str, root_url: str, local_root: str | None, allow_outside: bool) -> str:
    """Where the file at `path` (as in the log) is: relative to the root and decoded, or absolute if it lies outside.

    An absolute path inside the root becomes relative, whichever of the schemes of one store it has. Raises
    PathNotAllowed for an absolute path outside the root unless `allow_outside`, and always for a path that climbs with
    '..' or cannot be that of a file.
    """
    canonical = canonical_path(path)
    if not is_absolute(canonical):
        return checked_relative_path(canonical, root_url, path)
    named = with_one_scheme(canonical)
    for root in (with_one_scheme(unquote(root_url)), local_root):
        if root and named.startswith(root + "/"):
            # What is left may itself look absolute (`/root//etc/x`), and would be taken for that.
            return checked_relative_path(named[len(root) + 1 :], root_url, path)
    if not allow_outside:
        raise PathNotAllowed(
            f"{root_url}: the log names the file {path!r} outside the table's root, and such files are not followed "
            "here. If you trust the table, set the option allowPathsOutsideRoot to true (allow_paths_outside_root=True "
            "in Python)"
        )
    _require_file(canonical, root_url, path)
    return canonical


def checked_relative_path(relative: str, root_url: str, named: str | None = None) -> str:
    """`relative` itself, decoded already, where it is of a file below the root; `named` is what the log says.

    Raises PathNotAllowed where it is absolute or a URL, climbs with '..', or cannot be that of a file.
    """
    path = relative if named is None else named
    if is_absolute(relative):
        raise PathNotAllowed(
            f"{root_url}: the log names the file {path!r}, which must be below the table's root and hides an absolute "
            "path inside the path; such a path is never followed"
        )
    _require_file(relative, root_url, path)
    return relative


def _require_file(decoded: str, root_url: str, path: str) -> None:
    if ".." in _SEPARATOR.split(decoded):
        raise PathNotAllowed(
            f"{root_url}: the log names the file {path!r}, which climbs out of the table's root with '..'; such a path "
            "is never followed"
        )
    # A reader that is given a directory reads all that lies in it.
    if decoded.rpartition("/")[2] in ("", ".") or "\0" in decoded:
        raise PathNotAllowed(
            f"{root_url}: the log names the file {path!r}, which cannot be one: it is empty, ends as a directory does, "
            "or holds a NUL; such a path is never followed"
        )


def encode_path(path: str) -> str:
    """A relative path as the log stores it: percent-encoded, `/` and `=` kept."""
    return quote(path, safe="/=:@!$&'()*+,;-._~")
