"""ConfigMaps as Kubernetes mounts them: a folder each, a file for every key.

Keys of `binaryData` that end in `.gz` are compressed and stand for the key without that
ending, as in YuniKorn, whose configurations outgrow a ConfigMap's 1 MiB.
"""

import contextlib
import stat
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from queuegate_server.files.safe_open import open_regular
from queuegate_server.files.watcher import file_status

MAX_BYTES: Final = 4 * 1024 * 1024
"""The most that is read from a folder; a ConfigMap holds 1 MiB."""
DEFAULTS: Final = "yunikorn-defaults"
"""The ConfigMap that comes with the scheduler."""
CONFIGS: Final = "yunikorn-configs"
"""The ConfigMap that the administrators write; its keys win."""
_POLICY_GROUP: Final = "service.policyGroup"
_DEFAULT_POLICY_GROUP: Final = "queues"
_GZIP: Final = ".gz"
_GZIP_FORMAT: Final = 16
"""What zlib adds to the size of the window for gzip's header."""
_DATA: Final = "..data"
_MAX_ATTEMPTS: Final = 5


class ConfigMapFolders:
    """A source for the file watcher: the keys of several ConfigMaps, of which a later one wins."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """Read the folders that the ConfigMaps are mounted to."""
        self._folders = tuple(folders)

    @property
    def name(self) -> str:
        """The folders."""
        return "+".join(map(str, self._folders))

    def folders(self) -> tuple[Path, ...]:
        """Return all of them."""
        return self._folders

    def status(self) -> tuple[int, ...]:
        """Return the status of the version in each folder."""
        return tuple(number for folder in self._folders for number in _version_status(folder))

    def read(self) -> Mapping[str, bytes]:
        """Return the values by key. Raises OSError, also if a folder holds too much."""
        return overlaid(self._folders)


def _version_status(folder: Path) -> tuple[int, ...]:
    """Return the status of a folder and of the files in it; links are followed."""
    status = file_status(folder)
    for file in sorted(folder.iterdir()):
        # The kubelet swaps the version before it removes the links of keys that are gone.
        with contextlib.suppress(FileNotFoundError):
            status += file_status(file)
    return status


def overlaid(folders: Sequence[Path]) -> Mapping[str, bytes]:
    """Return the values of several folders by key; a later folder's value wins.

    Raises OSError if a folder cannot be read or holds too much.
    """
    values: dict[str, bytes] = {}
    for folder in folders:
        try:
            values.update(expanded(_read(folder)))
        except BadCompression as error:
            raise OSError(None, str(error), str(folder)) from None
    return values


class BadCompression(ValueError):
    """A value cannot be expanded; the message names its key."""


def expanded(values: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """Return the keys with what is compressed expanded; it wins over a plain namesake.

    Raises BadCompression, also for more than MAX_BYTES.
    """
    found = {key: value for key, value in values.items() if not is_compressed(key)}
    left = MAX_BYTES
    for key in filter(is_compressed, values):
        found[key[: -len(_GZIP)]] = text = _expand(key, values[key], left)
        left -= len(text)
    return found


def is_compressed(key: str) -> bool:
    """Say whether a key's value is compressed."""
    return key.lower().endswith(_GZIP)


def _expand(key: str, value: bytes, most: int) -> bytes:
    parts = bytearray()
    while value:
        stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | _GZIP_FORMAT)
        try:
            parts += stream.decompress(value, most + 1 - len(parts))
        except zlib.error:
            raise BadCompression(f"{key} is not in the format of gzip") from None
        if len(parts) > most:
            raise BadCompression(f"{key} holds more than {MAX_BYTES} bytes")
        if not stream.eof:
            raise BadCompression(f"{key} ends too early")
        # As gzip does: one part may follow another.
        value = stream.unused_data
    return bytes(parts)


def _read(folder: Path) -> Mapping[str, bytes]:
    """Read one version of the ConfigMap, also while another one is put in its place."""
    for _ in range(_MAX_ATTEMPTS - 1):
        try:
            return _read_files(_version(folder))
        except FileNotFoundError:
            continue
    return _read_files(_version(folder))


def _version(folder: Path) -> Path:
    """Follow the link that is swapped, once for all files."""
    data = folder / _DATA
    return data.resolve(strict=True) if data.is_symlink() else folder


def _read_files(folder: Path) -> Mapping[str, bytes]:
    values: dict[str, bytes] = {}
    left = MAX_BYTES
    for file in sorted(folder.iterdir()):
        # Two dots begin what the mount itself needs. A pipe would never end.
        if file.name.startswith("..") or not stat.S_ISREG(file.stat().st_mode):
            continue
        with open_regular(file) as opened:
            value = opened.read(left + 1)
        left -= len(value)
        if left < 0:
            raise OSError(None, f"more than {MAX_BYTES} bytes", str(folder))
        values[file.name] = value
    return values


def policy_key(values: Mapping[str, bytes], group: str | None = None) -> str:
    """Return the key with the queues: that of `group`, of the key `service.policyGroup`,
    or `queues.yaml`.
    """
    named = values.get(_POLICY_GROUP, b"").decode("utf-8", "replace")
    return f"{group or named or _DEFAULT_POLICY_GROUP}.yaml"
