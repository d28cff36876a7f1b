"""Reads YuniKorn's ConfigMaps from the folders where Kubernetes mounts them, one file per key.

As in YuniKorn, the value of a `binaryData` key that ends in `.gz` is decompressed, and the suffix
is removed from the key. Compression lets larger policies fit into a ConfigMap's limit of 1 MiB.
"""

import contextlib
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from queuegate_server.files.safe_open import file_status, gunzip, read_regular

DEFAULTS: Final = "yunikorn-defaults"
"""The ConfigMap installed with the scheduler."""
CONFIGS: Final = "yunikorn-configs"
"""The administrators' ConfigMap. Its keys take precedence."""
POLICY_GROUP: Final = "service.policyGroup"
"""The key that names the policy group. For the group GROUP, the scheduler reads the key
GROUP.yaml."""
_GZIP: Final = ".gz"
MAX_BYTES: Final = 4 * 1024 * 1024
"""The maximum total size of a folder. A ConfigMap's limit is 1 MiB."""
_MAX_GROUP_BYTES: Final = 253
"""The maximum length of a key."""
_DATA: Final = "..data"
_MAX_ATTEMPTS: Final = 5


def queues_key(values: Mapping[str, bytes]) -> str:
    """Return the key from which the scheduler reads the queues."""
    group = values.get(POLICY_GROUP, b"").decode("utf-8", "replace")
    return f"{group or 'queues'}.yaml"


def is_compressed(key: str) -> bool:
    """Return whether the key's value is compressed."""
    return key.lower().endswith(_GZIP)


def decompressed_key(key: str) -> str:
    """Return the key without its compression suffix, if any."""
    return key[: -len(_GZIP)] if is_compressed(key) else key


class ConfigMapFolders:
    """A file source that combines ConfigMaps. Keys in later ConfigMaps take precedence."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """`folders` are the ConfigMaps' mount points, in increasing order of precedence."""
        self.name = "+".join(map(str, folders))
        self._folders = tuple(folders)

    def status(self) -> tuple[int, ...]:
        """Return numbers that identify each folder's current version."""
        return tuple(number for folder in self._folders for number in _version_status(folder))

    def read(self) -> Mapping[str, bytes]:
        """Return the values by key. Raises OSError if a folder is unreadable or too large."""
        values: dict[str, bytes] = {}
        for folder in self._folders:
            try:
                values.update(decompress(_read(folder)))
            except BadCompression as error:
                raise OSError(None, str(error), str(folder)) from None
        return values


def _version_status(folder: Path) -> tuple[int, ...]:
    """Return numbers that identify the current version of the folder and its files."""
    status = file_status(folder)
    for file in sorted(folder.iterdir()):
        # Links may dangle, because the kubelet swaps the version before it removes deleted keys.
        with contextlib.suppress(FileNotFoundError):
            status += file_status(file)
    return status


def is_mounted(folder: Path) -> bool:
    """Return whether the folder is a ConfigMap mounted by Kubernetes."""
    return (folder / _DATA).exists()


class BadCompression(ValueError):
    """Raised for a value that cannot be decompressed. The message names its key."""


def key_instead(file: Path) -> str:
    """Return the key that the scheduler reads instead of this file in a mounted ConfigMap.

    Returns an empty string if the scheduler reads this file, the policy group cannot be read, or
    the file is not in a ConfigMap.
    """
    try:
        group = read_regular(file.parent / POLICY_GROUP, _MAX_GROUP_BYTES)
    except OSError:
        return ""
    key = queues_key({POLICY_GROUP: group})
    return "" if decompressed_key(file.name) == key else key


def decompress(values: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """Return all values by key, decompressed if necessary.

    A decompressed value overrides an uncompressed value with the same key. Raises BadCompression.
    """
    plain = {key: value for key, value in values.items() if not is_compressed(key)}
    left = MAX_BYTES
    for key in filter(is_compressed, values):
        plain[decompressed_key(key)] = text = _decompress(key, values[key], left)
        left -= len(text)
    return plain


def _decompress(key: str, value: bytes, max_bytes: int) -> bytes:
    try:
        text = gunzip(value, max_bytes)
    except (EOFError, ValueError) as error:
        raise BadCompression(f"{key} {error}") from None
    if len(text) > max_bytes:
        raise BadCompression(f"{key} holds more than {MAX_BYTES} bytes")
    return text


def _read(folder: Path) -> Mapping[str, bytes]:
    """Return the values from a single version of the ConfigMap, even while it is being replaced."""
    for _ in range(_MAX_ATTEMPTS - 1):
        try:
            return _read_files(_version(folder))
        except FileNotFoundError:
            continue
    return _read_files(_version(folder))


def _version(folder: Path) -> Path:
    """Return the folder that contains the current version's files."""
    data = folder / _DATA
    return data.resolve(strict=True) if data.is_symlink() else folder


def _read_files(folder: Path) -> Mapping[str, bytes]:
    values: dict[str, bytes] = {}
    left = MAX_BYTES
    for file in sorted(folder.iterdir()):
        # Skip the mount's own files, which start with two dots, and pipes, which could block.
        if file.name.startswith("..") or not stat.S_ISREG(file.stat().st_mode):
            continue
        value = read_regular(file, left)
        left -= len(value)
        if left < 0:
            raise OSError(None, f"holds more than {MAX_BYTES} bytes", str(folder))
        values[file.name] = value
    return values
