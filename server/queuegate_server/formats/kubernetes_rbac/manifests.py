"""Files and folders with Kubernetes objects, read as one text.

The text has a header line for each file, so that it can be handled like the text of a single file.
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from queuegate_server.files.safe_open import file_status, read_regular
from queuegate_server.formats.diagnostics import ParseError
from queuegate_server.formats.findings.table import finding
from queuegate_server.formats.source_text import MAX_BYTES

MAX_FILES: Final = 10_000
_MAGIC: Final = b"#queuegate-manifests\n"
_ENDINGS: Final = frozenset({".json", ".yaml", ".yml"})
_RBAC: Final = re.compile(
    rb"[\"']?apiVersion[\"']?[ \t]*:[ \t]*[\"']?rbac\.authorization\.k8s\.io/", re.ASCII
)


class Manifest(NamedTuple):
    """A file with Kubernetes objects."""

    name: str
    data: bytes


class ManifestFiles:
    """A source that reads files and folders. A folder stands for its YAML and JSON files that are
    not hidden.

    Implements `FileSource`.
    """

    key_instead: Final = ""
    is_key: Final = False
    """As in `QueuesFile`: no ConfigMap has manifests."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = tuple(paths)
        self.name: Final = ", ".join(map(str, self._paths))

    def status(self) -> tuple[int, ...]:
        """Return numbers that identify the current versions of all files."""
        return tuple(number for file in _files(self._paths) for number in file_status(file))

    def read(self) -> bytes:
        """Return the text of all files. Raises OSError."""
        parts = [_MAGIC]
        left = MAX_BYTES
        for file in _files(self._paths):
            data = read_regular(file, left)
            left -= len(data)
            if left < 0:
                raise OSError(None, f"the files are larger than {MAX_BYTES} bytes", self.name)
            header = json.dumps([str(file), len(data)]).encode()
            parts += (header, b"\n", data)
        return b"".join(parts)


def are_manifests(data: bytes) -> bool:
    """Return whether a string was read by `ManifestFiles`."""
    return data.startswith(_MAGIC)


def has_rbac(data: bytes) -> bool:
    """Return whether a string contains a Kubernetes RBAC object, or appears to."""
    return are_manifests(data) or _RBAC.search(data) is not None


def split(data: bytes, file: str) -> Iterator[Manifest]:
    """Yield the files in a string that `ManifestFiles` has read, or any other string as one file.

    Raises ParseError if the text is damaged.
    """
    if not data.startswith(_MAGIC):
        yield Manifest(file, data)
        return
    start = len(_MAGIC)
    while start < len(data):
        end = data.find(b"\n", start) + 1
        try:
            name, size = json.loads(data[start:end])
            start = range(end, len(data) + 1)[size]
        except (IndexError, TypeError, ValueError):
            raise ParseError(None, finding("damaged-manifests")) from None
        yield Manifest(str(name), data[end:start])


def _is_manifest(file: Path, folder: Path) -> bool:
    # A mounted ConfigMap has its files a second time, in a hidden folder.
    is_hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
    return file.suffix in _ENDINGS and not is_hidden


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files; the files of a folder are sorted. Raises OSError."""
    number = 0
    for path in paths:
        found = [path]
        if path.is_dir():
            found = sorted(each for each in path.rglob("*") if _is_manifest(each, path))
            if not found:
                raise OSError(None, "the folder has no .yaml, .yml or .json file", str(path))
        number += len(found)
        if number > MAX_FILES:
            raise OSError(None, f"there are more than {MAX_FILES} files", str(path))
        yield from found
