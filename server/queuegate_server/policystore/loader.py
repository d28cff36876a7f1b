"""All policies that the settings name, and the files beside them, read together."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from queuegate.policy.tree import Partition
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.files.safe_open import remedy
from queuegate_server.files.watcher import Content, FileWatcher, Source
from queuegate_server.formats.diagnostics import Diagnostic, Severity, has_errors, sort_diagnostics
from queuegate_server.formats.registry import YUNIKORN, LoadResult, detect_format, load_policy
from queuegate_server.formats.spark_defaults import read_spark_defaults
from queuegate_server.formats.yarn.model import YarnOptions
from queuegate_server.identity.registry import types
from queuegate_server.policystore.sources import OneFile, policy_files
from queuegate_server.runtime.threads import AbandonableThreadPool
from queuegate_server.settings.model import PartitionSettings, PolicySource, Settings


@dataclass(frozen=True, slots=True)
class ReadPolicies:
    """What all files say together."""

    partitions: Mapping[str, Partition]
    """By name; empty if a finding is an error."""
    files: Mapping[str, str]
    """By the name of the partition: what findings call the file that it is in."""
    problems: tuple[Diagnostic, ...]
    """All findings, by file and place."""
    empty: AbstractSet[str]
    """The names of the policies that have no partitions."""
    spark_defaults: Mapping[str, Mapping[str, str]]
    """By the name of the partition: the properties of its applications of Spark."""
    checksum: str
    """That of the file if there is just one, else of all their checksums in order."""


class UnreadableFile(Exception):
    """A file cannot be read."""

    def __init__(self, file: str, error: OSError) -> None:
        """Keep the name of the file, what the system said, and what to do about it."""
        self.file = file
        self.reason = error.strerror or str(error)
        self.remedy = remedy(error)
        super().__init__(f"{file}: {self.reason}")


class _File(NamedTuple):
    name: str
    """What findings call it."""
    watched: FileWatcher[bytes]


class _Source(NamedTuple):
    stated: PolicySource
    policy: _File
    site: _File | None
    spark: _File | None

    @property
    def files(self) -> list[_File]:
        return [file for file in (self.policy, self.site, self.spark) if file is not None]


class PolicySources:
    """Reads and parses all sources. Used from one event loop."""

    def __init__(
        self, settings: Settings, of_partition: Callable[[str], PartitionSettings]
    ) -> None:
        """Take the settings, and what gives those of a partition by its name."""
        self._of_partition = of_partition
        self._sources = [
            _Source(
                source,
                _file(policy_files(source)),
                _beside(source.yarn_site),
                _beside(source.spark_defaults),
            )
            for source in settings.sources
        ]
        self._files = [file for source in self._sources for file in source.files]
        self._parser = AbandonableThreadPool(1, "policy-parse")
        self._formats: Mapping[str, str] = {}
        """By the name of the policy: what it was found to be. A file that becomes another one
        while we serve is a mistake, and could open what was closed."""
        self.name: Final = ", ".join(source.policy.name for source in self._sources)
        """The names of the policies, for people."""

    @property
    def watched(self) -> list[FileWatcher[bytes]]:
        """All files."""
        return [file.watched for file in self._files]

    async def read(self) -> ReadPolicies:
        """Read and parse all files, in threads. Raises UnreadableFile."""
        # Each is read, also beside one that cannot be: what is not read seems to be changed.
        results = await asyncio.gather(
            *(_read(file) for file in self._files), return_exceptions=True
        )
        contents: dict[_File, Content[bytes]] = {}
        for file, result in zip(self._files, results, strict=True):
            if isinstance(result, BaseException):
                raise result
            contents[file] = result
        return await self._parser.run("parse", lambda: self._parse(contents))

    def _parse(self, contents: Mapping[_File, Content[bytes]]) -> ReadPolicies:
        """Parse. Runs in a thread."""
        partitions: dict[str, Partition] = {}
        came_from: dict[str, str] = {}
        empty: set[str] = set()
        problems: list[Diagnostic] = []
        spark: dict[str, Mapping[str, str]] = {}
        formats: dict[str, str] = {}
        for source in self._sources:
            name = source.policy.name
            format_name = self._format(source, contents[source.policy].data)
            loaded = self._load(source, format_name, contents)
            problems += loaded.diagnostics
            if loaded.partitions:
                formats[name] = format_name
            else:
                empty.add(name)
            if format_name == YUNIKORN:
                problems += self._pointless_semantics(loaded, name)
            for partition in loaded.partitions:
                if partition in partitions:
                    message = f"the partition {partition!r} is in {came_from[partition]}, too"
                    rename = "give one of them another name"
                    problems.append(Diagnostic(name, 1, 1, Severity.ERROR, message, rename))
                came_from.setdefault(partition, name)
            partitions = {**loaded.partitions, **partitions}
            if source.spark is not None:
                data = contents[source.spark].data
                properties, found = read_spark_defaults(data, source.spark.name)
                problems += found
                spark |= dict.fromkeys(loaded.partitions, properties)
        if has_errors(problems):
            partitions = {}
        else:
            self._formats = {**self._formats, **formats}
        checksums = [contents[file].checksum for file in self._files]
        checksum = checksums[0]
        if len(checksums) > 1:
            checksum = hashlib.sha256("\n".join(checksums).encode()).hexdigest().upper()
        return ReadPolicies(
            partitions, came_from, tuple(sort_diagnostics(problems)), empty, spark, checksum
        )

    def _format(self, source: _Source, data: bytes) -> str:
        known = source.stated.format or self._formats.get(source.policy.name)
        return known or detect_format(data)

    def _load(
        self, source: _Source, format_name: str, contents: Mapping[_File, Content[bytes]]
    ) -> LoadResult:
        site = source.site
        data = contents[source.policy].data
        message = remedy = ""
        if format_name == YUNIKORN and source.stated.for_yarn:
            keys = ", ".join(source.stated.for_yarn)
            message = f"this is a queues.yaml of YuniKorn, and the settings say: {keys}"
            remedy = "remove that from the settings, or name the file of a scheduler of YARN"
        elif format_name == YUNIKORN and detect_format(data) != YUNIKORN:
            message = "this is XML, and should be a queues.yaml of YuniKorn, as before or as stated"
            remedy = "put the queues.yaml back, or correct the settings and start again"
        if message:
            problem = Diagnostic(source.policy.name, 1, 1, Severity.ERROR, message, remedy)
            return LoadResult({}, (problem,))
        return load_policy(
            format_name,
            data,
            source.policy.name,
            acl_names=lambda name: self._of_partition(name).acl_names,
            resolver_types=types(),
            yarn_options=YarnOptions(
                source.stated.partition,
                lambda name: self._of_partition(name).semantics,
                (contents[site].data, site.name) if site else None,
                source.stated.daemon_user,
            ),
        )

    def _pointless_semantics(self, loaded: LoadResult, file: str) -> list[Diagnostic]:
        message = "the semantics of partition {!r} are set, which mean nothing to YuniKorn"
        remedy = "remove `semantics` from the partition's settings"
        return [
            Diagnostic(file, 0, 0, Severity.WARNING, message.format(name), remedy)
            for name in loaded.partitions
            if self._of_partition(name).semantics is not Semantics.DOCUMENTED
        ]


def _file(files: Source[bytes]) -> _File:
    return _File(files.name, FileWatcher(files))


def _beside(path: Path | None) -> _File | None:
    return _file(OneFile(path)) if path else None


async def _read(file: _File) -> Content[bytes]:
    try:
        return await file.watched.read()
    except OSError as error:
        raise UnreadableFile(file.name, error) from error
