"""Sources of policies: a file, or the scheduler's mounted ConfigMaps."""

from pathlib import Path
from typing import Final

from queuegate_server.files.configmap import ConfigMapFolders
from queuegate_server.files.safe_open import read_regular
from queuegate_server.files.watcher import FileSource, file_folders, file_status
from queuegate_server.formats.source_text import MAX_BYTES
from queuegate_server.settings.model import PolicySource

EMBEDDED_DEFAULT: Final = Path(__file__).with_name("default_queues.yaml")


class OneFile:
    """A source for the file watcher: one file."""

    def __init__(self, path: Path) -> None:
        """Read the file at `path`, which may not exist yet."""
        self._path = path

    @property
    def name(self) -> str:
        """The path."""
        return str(self._path)

    def folders(self) -> tuple[Path, ...]:
        """Return the folder of the file, and of what it links to."""
        return file_folders(self._path)

    def status(self) -> tuple[int, ...]:
        """Return the file's status. Raises OSError."""
        return file_status(self._path)

    def read(self) -> bytes:
        """Return the content; of a file that is too large, a byte more than a policy may have.

        Raises:
            OSError: The file cannot be read, or is not a regular one.
        """
        return read_regular(self._path, MAX_BYTES)


class ConfigMaps:
    """A source for the file watcher: the folders of yunikorn-defaults and yunikorn-configs.

    As in the scheduler, a key of yunikorn-configs wins over the same key of
    yunikorn-defaults, and `service.policyGroup` names the key with the queues.
    """

    def __init__(self, folders: tuple[Path, ...], group: str | None) -> None:
        """Read these folders, of which a later one wins; `group` overrides the policy group."""
        self._maps = maps = ConfigMapFolders(folders)
        self._group = group
        self.name = maps.name
        self.folders = maps.folders
        self.status = maps.status

    def read(self) -> bytes:
        """Return the queues.

        Raises:
            OSError: A folder cannot be read, or none has the queues. The scheduler would then
                open its queues to everyone; this server does not.
        """
        values = self._maps.read()
        named = values.get("service.policyGroup", b"").decode("utf-8", "replace")
        key = f"{self._group or named or 'queues'}.yaml"
        if key not in values:
            raise FileNotFoundError(None, f"there is no {key}", self.name)
        return values[key]


def policy_files(source: PolicySource) -> FileSource[bytes]:
    """Return the source that the settings name; without one, the embedded default."""
    folders = tuple(folder for folder in (source.defaults, source.configs) if folder is not None)
    if folders:
        return ConfigMaps(folders, source.group)
    return OneFile(source.path or EMBEDDED_DEFAULT)
