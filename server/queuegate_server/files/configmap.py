"""YuniKorn's ConfigMaps: their keys, and the folders on which Kubernetes mounts them, with a file
for each key.

As in YuniKorn, a key of `binaryData` that ends in `.gz` is compressed and stands for the key
without that suffix, because large policies exceed the 1 MiB limit of a ConfigMap.
"""

import contextlib
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from queuegate_server.files.safe_open import (
    file_status,
    gunzip,
    open_regular,
    read_at_most,
    read_regular,
)

DEFAULTS: Final = "yunikorn-defaults"
"""The ConfigMap that comes with the scheduler."""
CONFIGS: Final = "yunikorn-configs"
"""The ConfigMap that administrators edit, whose keys take precedence."""
POLICY_GROUP: Final = "service.policyGroup"
"""The key that names the policy group GROUP. The scheduler then reads the key GROUP.yaml."""
_GZIP: Final = ".gz"
MAX_BYTES: Final = 4 * 1024 * 1024
"""The maximum size read from a folder. A ConfigMap holds 1 MiB."""
_MAX_GROUP_BYTES: Final = 253
"""The maximum length of a key."""
_DATA: Final = "..data"
_MAX_ATTEMPTS: Final = 5


def queues_key(values: Mapping[str, bytes]) -> str:
    """Return the key with the queues that the scheduler reads."""
    group = values.get(POLICY_GROUP, b"").decode("utf-8", "replace")
    return f"{group or 'queues'}.yaml"


def is_compressed(key: str) -> bool:
    """Return whether the value of a key is compressed."""
    return key.lower().endswith(_GZIP)


def decompressed_key(key: str) -> str:
    """Return the key that a compressed key stands for. Any other key is returned unchanged."""
    return key[: -len(_GZIP)] if is_compressed(key) else key


class ConfigMapFolders:
    """Several ConfigMaps as a single source. The keys of later ones take precedence."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """Use the folders on which the ConfigMaps are mounted, in this order."""
        self._folders = tuple(folders)

    @property
    def name(self) -> str:
        """The folders."""
        return "+".join(map(str, self._folders))

    def folders(self) -> tuple[Path, ...]:
        """Return all folders."""
        return self._folders

    def status(self) -> tuple[int, ...]:
        """Return the status of the version in each folder."""
        return tuple(number for folder in self._folders for number in _version_status(folder))

    def read(self) -> Mapping[str, bytes]:
        """Return the values by key. Raises OSError, including if a folder holds too much."""
        values: dict[str, bytes] = {}
        for folder in self._folders:
            try:
                values.update(decompress(_read(folder)))
            except BadCompression as error:
                raise OSError(None, str(error), str(folder)) from None
        return values


def _version_status(folder: Path) -> tuple[int, ...]:
    """Return the status of a folder and the files in it, following links."""
    status = file_status(folder)
    for file in sorted(folder.iterdir()):
        # The kubelet swaps the version before it removes the links of deleted keys.
        with contextlib.suppress(FileNotFoundError):
            status += file_status(file)
    return status


def is_mounted(folder: Path) -> bool:
    """Return whether a folder is a ConfigMap mounted by Kubernetes."""
    return (folder / _DATA).exists()


class BadCompression(ValueError):
    """Raised for a value that cannot be decompressed. The message names its key."""


def key_instead(file: Path) -> str:
    """Return the key that the scheduler reads instead of a file, if the file is a key of a mounted
    ConfigMap that names another policy group. Empty if not, or if the group cannot be read.
    """
    try:
        group = read_regular(file.parent / POLICY_GROUP, _MAX_GROUP_BYTES)
    except OSError:
        return ""
    key = queues_key({POLICY_GROUP: group})
    return "" if decompressed_key(file.name) == key else key


def decompress(values: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """Return the values with compressed ones decompressed, which replace plain values of the same
    key.

    Raises BadCompression, including for more than MAX_BYTES.
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
    """Read one version of the ConfigMap, even while it is being replaced."""
    for _ in range(_MAX_ATTEMPTS - 1):
        try:
            return _read_files(_version(folder))
        except FileNotFoundError:
            continue
    return _read_files(_version(folder))


def _version(folder: Path) -> Path:
    """Resolve the link that Kubernetes swaps, once for all files."""
    data = folder / _DATA
    return data.resolve(strict=True) if data.is_symlink() else folder


def _read_files(folder: Path) -> Mapping[str, bytes]:
    values: dict[str, bytes] = {}
    left = MAX_BYTES
    for file in sorted(folder.iterdir()):
        # Names that start with two dots belong to the mount itself. Reading a pipe would never end.
        if file.name.startswith("..") or not stat.S_ISREG(file.stat().st_mode):
            continue
        with open_regular(file) as opened:
            value = read_at_most(opened, left)
        left -= len(value)
        if left < 0:
            raise OSError(None, f"holds more than {MAX_BYTES} bytes", str(folder))
        values[file.name] = value
    return values
