"""Reads and parses the configured policies, with their yarn-site.xml and Spark defaults files."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from queuegate_server.files.configmap import (
    POLICY_GROUP,
    BadCompression,
    ConfigMapFolders,
    decompress,
    is_mounted,
    key_instead,
    queues_key,
)
from queuegate_server.files.safe_open import remedy
from queuegate_server.files.watcher import Content, FileWatcher, OneFile, checksum
from queuegate_server.formats.diagnostics import Diagnostic, diagnostic_of, has_errors
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.formats.findings.table import finding
from queuegate_server.formats.format_names import KUBERNETES
from queuegate_server.formats.kubernetes_rbac.manifests import ManifestFiles
from queuegate_server.formats.source_text import MAX_BYTES
from queuegate_server.identity.resolver_types import types
from queuegate_server.policystore import parser_process
from queuegate_server.policystore.parsing import File, ParsedPolicies, ParseJob, PolicyText, parse
from queuegate_server.runtime.threads import AbandonableThreadPool, ThreadsExhausted
from queuegate_server.settings.model import PolicySource, Settings

if TYPE_CHECKING:
    from queuegate_server.policystore.kubernetes.cluster_policy import ClusterPolicy

MAX_KEPT_BYTES: Final = 2 * 1024 * 1024
"""The maximum size of retained policies, twice a ConfigMap's limit."""
EMBEDDED_DEFAULT: Final = Path(__file__).with_name("default_queues.yaml")


class CannotLoad(Exception):
    """The policies cannot be read."""

    def __init__(self, file: str, message: str, remedy: str) -> None:
        super().__init__(f"{file}: {message}")
        self.diagnostic: Final = Diagnostic(file, 0, 0, Severity.ERROR, message, remedy)


class ConfigMaps:
    """A file source that reads the mounted ConfigMaps yunikorn-defaults and yunikorn-configs.

    As in the scheduler, yunikorn-configs overrides keys in yunikorn-defaults, and
    `service.policyGroup` determines which key contains the queues.
    """

    def __init__(self, folders: tuple[Path, ...], group: str | None) -> None:
        """`folders` are in order of increasing precedence. `group` overrides the policy group."""
        self._maps = maps = ConfigMapFolders(folders)
        self._group = group
        self.key_instead = ""
        """The key that the scheduler reads instead of this source's key, as of the last read; empty
        if the keys are the same."""
        self.is_key: Final = True
        """Whether the text is a ConfigMap key's value. In such text, YuniKorn does not open
        envelopes (`formats/envelope.py`)."""
        self.name = maps.name
        self.status = maps.status

    def read(self) -> bytes:
        """Return the value of the key that contains the queues.

        Raises OSError if a folder cannot be read or no folder contains the key. A missing key is an
        error because, without it, the scheduler opens its queues to everyone.
        """
        values = self._maps.read()
        theirs = queues_key(values)
        key = f"{self._group}.yaml" if self._group else theirs
        self.key_instead = "" if key == theirs else theirs
        if key not in values:
            named = (
                f", which {POLICY_GROUP} names" if POLICY_GROUP in values and key == theirs else ""
            )
            raise FileNotFoundError(None, f"there is no {key}{named}", self.name)
        return values[key]


class QueuesFile(OneFile):
    """A file source that reads a policy file or a mounted ConfigMap key."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, MAX_BYTES)
        self.key_instead = ""
        """See `ConfigMaps.key_instead`."""
        self.is_key = False
        """See `ConfigMaps.is_key`. The value is as of the last read."""

    def read(self) -> bytes:
        """Return the contents, decompressing a compressed ConfigMap value. Raises OSError."""
        self.key_instead = key_instead(self._path)
        self.is_key = is_mounted(self._path.parent)
        data = super().read()
        if not self.is_key:
            return data
        try:
            [text] = decompress({self._path.name: data}).values()
        except BadCompression as error:
            raise OSError(None, str(error), self.name) from None
        return text


class _Policy(NamedTuple):
    stated: PolicySource
    source: ConfigMaps | QueuesFile | ManifestFiles
    policy: FileWatcher[bytes]
    site: FileWatcher[bytes] | None
    spark: FileWatcher[bytes] | None


class PolicyLoader:
    """Reads and parses all policies named in the settings."""

    def __init__(self, settings: Settings, max_kept_bytes: int = MAX_KEPT_BYTES) -> None:
        self._policies = []
        self.cluster: Final = followed_cluster(settings)
        """The cluster whose RBAC is a policy; None if all policies are files."""
        self.files: ParsedPolicies | None = None
        """The policies that were last read from files, if there is also a cluster."""
        for stated in settings.sources:
            if stated.is_followed:
                continue
            source = policy_files(stated)
            site, spark = _beside(stated.yarn_site), _beside(stated.spark_defaults)
            self._policies.append(_Policy(stated, source, FileWatcher(source), site, spark))
        self.watchers: Final = [
            file
            for *_, policy, site, spark in self._policies
            for file in (policy, site, spark)
            if file is not None
        ]
        self._settings = settings
        # Discover the resolver types only once, because this takes up to 20 ms.
        self._resolver_types = types()
        self._threads = AbandonableThreadPool(1, "policy-parse")
        self.parsing: Final = asyncio.Lock()
        """The lock held while a child process parses the policies."""
        self._formats: dict[str, str] = {}
        """The formats by policy name. A policy keeps its format, since an accidental change of
        format could open closed queues."""
        self.texts: ParseJob | None = None
        """The policies' text from the last load, kept for the console and for reviews by the
        webhook, unless it is large."""
        self._max_kept_bytes = max_kept_bytes
        self._keeps_texts = settings.console.enabled or settings.admission.queues is not None
        names = [policy.policy.name for policy in self._policies]
        if self.cluster is not None:
            names.append(self.cluster.name)
        self.name: Final = ", ".join(names)
        """The policies' names, for display."""

    def format_of(self, source: PolicySource) -> str:
        """Return the configured or previously detected format; empty if neither exists."""
        return source.format or self._formats.get(policy_files(source).name, "")

    async def load(self, *, in_child: bool, files: ParsedPolicies | None = None) -> ParsedPolicies:
        """Read and parse all files, unless `files` are given, and add the cluster.

        Waits until the cluster, which must be followed, has been read once. Parses in a thread, or,
        if `in_child` is set, in a child process with limits. The thread is faster; the child does
        not delay calls. Raises CannotLoad if a file cannot be read, and ParserError if the child
        cannot be started, reaches a limit or crashes.
        """
        parsed = files or await self.load_files(in_child=in_child)
        if self.cluster is None or has_errors(parsed.diagnostics):
            return parsed
        self.files = parsed
        await self.cluster.ready.wait()
        return self.with_cluster(parsed)

    async def load_files(self, *, in_child: bool) -> ParsedPolicies:
        """Read and parse all files; see `load`."""
        job = await self.read()
        size = sum(len(text.policy.data) for text in job.texts)
        self.texts = job if self._keeps_texts and size <= self._max_kept_bytes else None
        if in_child and job.texts:
            async with self.parsing:
                parsed = await parser_process.parse(job)
        else:
            parsed = await self._threads.run("", partial(parse, job))
        with suppress(OSError, ThreadsExhausted):  # On failure, ACLs are parsed on first use.
            await self._threads.run(None, partial(_parse_long_acls, parsed))
        if not has_errors(parsed.diagnostics):
            self._formats |= parsed.formats
        return parsed

    def with_cluster(self, parsed: ParsedPolicies) -> ParsedPolicies:
        """Return the policies from files, with the cluster's policy as it was last read."""
        cluster = self.cluster
        if cluster is None:
            return parsed
        partition, name = cluster.partition, cluster.partition.name
        if name in parsed.partitions:
            found = finding("partition-in-two-files", partition=name, file=parsed.files[name])
            diagnostics = (*parsed.diagnostics, diagnostic_of(found, cluster.name))
            return replace(parsed, partitions={}, diagnostics=diagnostics)
        return replace(
            parsed,
            partitions={**parsed.partitions, name: partition},
            files={**parsed.files, name: cluster.name},
            formats={**parsed.formats, cluster.name: KUBERNETES},
            checksum=checksum(f"{parsed.checksum}\n{cluster.checksum}".encode()),
        )

    async def read(self) -> ParseJob:
        """Read all files. Raises CannotLoad."""
        # Read every file even after a failure, because watchers treat unread files as changed.
        results = await asyncio.gather(*map(_read, self.watchers), return_exceptions=True)
        files: dict[FileWatcher[bytes], File] = {}
        checksums = []
        for watcher, result in zip(self.watchers, results, strict=True):
            if isinstance(result, BaseException):
                raise result
            files[watcher] = File(watcher.name, result.data)
            checksums.append(result.checksum)
        combined = checksums[0] if checksums else ""
        if len(checksums) > 1:
            combined = checksum("\n".join(checksums).encode())
        texts = (
            PolicyText(
                files[policy],
                self.format_of(stated),
                self._settings.format_options(
                    stated,
                    (files[site].data, files[site].name) if site else None,
                    self._resolver_types,
                    is_bare=source.is_key,
                ),
                stated.for_yarn,
                files[spark] if spark else None,
                source.key_instead,
            )
            for stated, source, policy, site, spark in self._policies
        )
        return ParseJob(tuple(texts), combined, self._settings.yarn_partitions)


def policy_files(source: PolicySource) -> ConfigMaps | QueuesFile | ManifestFiles:
    """Return a policy's file source. If no file is configured, it reads the embedded default.

    If the file is a folder, it holds manifests with Kubernetes RBAC.
    """
    if source.kubernetes is not None:
        return ManifestFiles(source.kubernetes.manifests)
    if source.path is not None and source.path.is_dir():
        return ManifestFiles((source.path,))
    folders = tuple(folder for folder in (source.defaults, source.configs) if folder is not None)
    if folders:
        return ConfigMaps(folders, source.group)
    return QueuesFile(source.path or EMBEDDED_DEFAULT)


def followed_cluster(settings: Settings) -> "ClusterPolicy | None":
    """Return the cluster whose RBAC is a policy; None if all policies are files."""
    for source in settings.sources:
        if source.is_followed and (stated := source.kubernetes) is not None:
            # Imported here because they are slow to import and rarely needed.
            from queuegate_server.policystore.kubernetes.account import (  # noqa: PLC0415
                Kubeconfig,
                PodAccount,
            )
            from queuegate_server.policystore.kubernetes.cluster_policy import (  # noqa: PLC0415
                ClusterPolicy,
            )

            account = Kubeconfig(stated.kubeconfig) if stated.kubeconfig else PodAccount()
            return ClusterPolicy(account, stated.rbac, stated.max_age)
    return None


def _parse_long_acls(parsed: ParsedPolicies) -> None:
    for partition in parsed.partitions.values():
        partition.parse_long_acls()


def _beside(path: Path | None) -> FileWatcher[bytes] | None:
    return FileWatcher(OneFile(path, MAX_BYTES)) if path else None


async def _read(file: FileWatcher[bytes]) -> Content[bytes]:
    try:
        return await file.read()
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        raise CannotLoad(file.name, message, remedy(error)) from error
