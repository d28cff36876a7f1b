"""Finds errors that would prevent a server from starting. Used by `validate`."""

import asyncio
import logging
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel

from queuegate_server.cli.command import read_file, unreadable
from queuegate_server.files.safe_open import open_regular
from queuegate_server.files.watcher import BadFile
from queuegate_server.formats.diagnostics import Diagnostic, ParseError, sort_diagnostics
from queuegate_server.formats.envelope import open_settings
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.formats.format_names import YUNIKORN
from queuegate_server.formats.registry import FormatOptions, check_file, load_policy
from queuegate_server.identity.manager import unusable_resolvers
from queuegate_server.identity.options import ResolverOptions
from queuegate_server.identity.resolver_types import RESOLVER_TYPES, types
from queuegate_server.runtime.tcp import CannotListen
from queuegate_server.settings.listeners import ListenerTls
from queuegate_server.settings.load import SettingsError, load_with_origins
from queuegate_server.settings.model import Settings
from queuegate_server.settings.observability import STDOUT
from queuegate_server.settings.source_map import Location, Override, SourceMap
from queuegate_server.transports.registry import choose

if TYPE_CHECKING:
    from queuegate_server.policystore.reloader import PolicyReview

FileResult = tuple[str, Iterable[Diagnostic] | OSError]
"""A file's name, with the file's diagnostics or the error from reading it."""

RESOLVER_KEY: Final = b"usergroupresolver"
"""The key contained in every policy that names a resolver."""

_FOLDERS: Final = ("configs", "defaults")
_MANIFESTS: Final = "manifests"
_POLICIES: Final = ("policy", "policies")
_POLICY_FILES: Final = ("path", "yarn_site", "spark_defaults", *_FOLDERS)


def unusable_resolver_errors(
    data: bytes, name: str, options: FormatOptions
) -> Iterator[Diagnostic]:
    """Yield an error for each partition whose resolver type requires settings. `data` must be a
    valid queues.yaml.
    """
    partitions = {
        key: partition
        for key, partition in load_policy(YUNIKORN, data, name, options).partitions.items()
        if partition.resolver_type in RESOLVER_TYPES
    }
    for each in unusable_resolvers(Settings(), partitions):
        place = name, *each.partition.resolver_place
        remedy = "if the server has settings for it, check with --config queuegate.yaml"
        yield Diagnostic(*place, Severity.ERROR, str(each), remedy, finding="unusable-resolver")


def check_start(config: Path, policies: Sequence[str]) -> Iterator[FileResult]:
    """Yield the diagnostics for everything that a server with the given settings would load.

    Args:
        config: The settings file.
        policies: The policies to check in turn; if empty, the settings' policies.
    """
    try:
        content = read_file(config)
    except OSError as error:
        yield str(config), error
        return
    for policy in policies or (None,):
        name = str(config) if policy is None else policy
        try:
            if not Path(name).is_dir():
                open_regular(Path(name)).close()
        except OSError as error:
            yield name, error
            continue
        options = [] if policy is None else [Override(policy, ("policy", "path"), policy)]
        diagnostics, loaded = _check(config, content, options, os.environ)
        if loaded is not None:
            diagnostics += (*policy_diagnostics(*loaded), *_notes(loaded[0]))
        yield name, diagnostics


def _notes(settings: Settings) -> Iterator[Diagnostic]:
    """Yield notes on YARN policies in the settings. Skips unreadable files, which are errors."""
    for source in settings.sources:
        if source.yarn_site is None or source.path is None:
            continue
        try:
            site, data = read_file(source.yarn_site), read_file(source.path)
        except OSError:
            continue
        options = settings.format_options(source, (site, str(source.yarn_site)), types())
        found = check_file(source.format or "", data, str(source.path), options, with_lint=False)
        yield from (each for each in found if each.severity is Severity.NOTE)


def policy_diagnostics(settings: Settings, source_map: SourceMap) -> tuple[Diagnostic, ...]:
    """Return the diagnostics for the policies that a server or webhook with the settings loads."""
    # Imported here because it is slow to import and rarely needed.
    from queuegate_server.policystore.reloader import check  # noqa: PLC0415

    return asyncio.run(check(settings, _policy_review(settings, source_map)))


def webhook_warnings(settings: Settings, source_map: SourceMap) -> Iterator[Diagnostic]:
    """Yield the warnings about a webhook's settings that can be found without a policy."""
    if not settings.admission.needs_policy:
        return
    # Imported here because it is slow to import and rarely needed.
    from queuegate_server.admission.queues.policy_review import review_settings  # noqa: PLC0415

    yield from review_settings(settings, source_map)


def absent_policy_files(settings: Settings) -> list[Path]:
    """Return the policies' files and folders that do not exist on this machine."""
    paths = [path for location, path in _files(settings) if location[0] in _POLICIES]
    # Unlike `os.path.exists`, `Path.exists` can raise if a folder in the path cannot be entered.
    return [path for path in paths if not os.path.exists(path)]  # noqa: PTH110


def relative_absent_policy_files(settings: Settings, source_map: SourceMap) -> list[Diagnostic]:
    """Return an error for each absent policy file whose path is relative.

    An absolute path may exist only in the webhook's pod. A relative path starts at the working
    directory, both here and in the pod.
    """
    absent = absent_policy_files(settings)
    return [
        source_map.diagnostic(
            location,
            f"{path} does not exist in this folder",
            "run the command in the policy's folder, or write the path at which the webhook's "
            f"pod mounts the policy, such as /etc/queuegate/settings/{path.name}",
        )
        for location, path in _files(settings)
        if path in absent and not path.is_absolute()
    ]


def _policy_review(settings: Settings, source_map: SourceMap) -> "PolicyReview | None":
    """Return the review that a webhook with these settings makes of its policies."""
    if not settings.admission.needs_policy:
        return None
    # Imported here for the same reasons.
    from queuegate_server.admission.queues.policy_review import (  # noqa: PLC0415
        NO_LIMIT,
        review_policy,
    )

    return partial(review_policy, settings, max_bytes=NO_LIMIT, source_map=source_map)


def check_settings(data: bytes, name: str) -> Iterable[Diagnostic]:
    """Return the diagnostics for a settings file, or for a manifest that contains one."""
    try:
        opened = open_settings(data, name)
    except ParseError as error:
        return [error.diagnostic(name)]
    absent_files: set[Path] | None = set() if opened.key else None
    return opened.in_file(_check(Path(opened.file), opened.data, [], {}, absent_files)[0])


def _check(
    config: Path,
    content: bytes,
    options: Sequence[Override],
    variables: Mapping[str, str],
    absent_files: set[Path] | None = None,
) -> tuple[list[Diagnostic], tuple[Settings, SourceMap] | None]:
    """Return the diagnostics for settings, with the settings and the origin of each value if their
    policies can be read.

    If the settings are for another machine, `absent_files` is a set: missing files are added to it
    and cause only warnings.
    """
    try:
        settings, source_map = load_with_origins(config, variables, options, content, absent_files)
    except SettingsError as error:
        return [*error.diagnostics], None
    unreadable_keys = {}
    for location, path in (*_files(settings), *_validated_files(settings, absent_files or ())):
        may_be_folder = location[-1] == "path" or _MANIFESTS in location
        is_folder = location[-1] in _FOLDERS or (may_be_folder and path.is_dir())
        fault = _read_error(path, is_folder=is_folder)
        if isinstance(fault, FileNotFoundError) and absent_files is not None:
            message = f"{path} does not exist on this machine, and was not checked"
            remedy = "ignore this if the pod mounts it"
            unreadable_keys[location] = source_map.warning(location, message, remedy)
        elif fault is not None:
            diagnostic = unreadable(path, fault)
            message = f"{path} {diagnostic.message}"
            unreadable_keys[location] = source_map.diagnostic(location, message, diagnostic.remedy)
    diagnostics = [
        *unreadable_keys.values(),
        *_listener_faults(settings, source_map, unreadable_keys),
        *_audit_faults(settings, source_map, absent_files),
        *_contradictions(settings, source_map),
        *_not_served(settings, source_map),
        *webhook_warnings(settings, source_map),
    ]
    is_policy_missing = any(location[0] in _POLICIES for location in unreadable_keys)
    return sort_diagnostics(diagnostics), None if is_policy_missing else (settings, source_map)


def _files(settings: Settings) -> Iterator[tuple[Location, Path]]:
    """Yield each file or folder named in the settings, with the location of its key."""
    for position, source in enumerate(settings.sources):
        above: Location = ("policies", position) if settings.policies else ("policy",)
        for key in _POLICY_FILES:
            if (path := getattr(source, key)) is not None:
                yield (*above, key), path
        if (rbac := source.kubernetes) is not None:
            for number, path in enumerate(rbac.manifests):
                yield (*above, "kubernetes", _MANIFESTS, number), path
            yield from _present((*above, "kubernetes", "kubeconfig"), rbac.kubeconfig)
    yield from _present(("callers", "token_file"), settings.callers.token_file)
    for above, tls in _certificates(settings):
        for key, path in tls:
            if path is not None:
                yield (*above, key), path


def _present(location: Location, path: Path | None) -> Iterator[tuple[Location, Path]]:
    if path is not None:
        yield location, path


def _validated_files(
    settings: Settings, files: Collection[Path]
) -> Iterator[tuple[Location, Path]]:
    """Yield each of `files` that a resolver or the fleet uses, with the location of its key."""
    sections: list[tuple[Location, object]] = [(("fleet",), settings.fleet)]
    sections += [(("resolvers", key), each.options) for key, each in settings.resolvers.items()]
    for above, section in sections:
        for key, value in section if isinstance(section, BaseModel) else ():
            if isinstance(value, Path) and value in files:
                yield (*above, key), value


def _certificates(settings: Settings) -> Iterator[tuple[Location, ListenerTls]]:
    for position, listener in enumerate(settings.listen):
        if listener.tls:
            yield ("listen", position, "tls"), listener.tls
    for position, listener in enumerate(settings.http.listen):
        if listener.tls:
            yield ("http", "listen", position, "tls"), listener.tls
    if settings.ops.tls:
        yield ("ops", "tls"), settings.ops.tls
    if (webhook := settings.admission.tls) is not None:
        yield (
            ("admission", "tls"),
            ListenerTls(
                certificate_file=webhook.certificate_file,
                key_file=webhook.key_file,
                client_ca_file=webhook.client_ca_file,
            ),
        )


def _read_error(path: Path, *, is_folder: bool) -> OSError | None:
    """Return the error from reading a file or folder, or None if it is readable."""
    try:
        if is_folder:
            list(path.iterdir())
        else:
            open_regular(path).close()
    except OSError as error:
        return error
    return None


def _listener_faults(
    settings: Settings, source_map: SourceMap, unreadable_keys: Collection[Location]
) -> Iterator[Diagnostic]:
    """Yield errors that would prevent a server from listening, and warnings about missing tokens.

    Files with keys in `unreadable_keys` have already been reported.
    """
    try:
        choose(settings.transport, settings.listen, settings.limits.connections)
    except CannotListen as error:
        yield source_map.diagnostic(("transport",), str(error))
    location: Location = ("callers", "token_file")
    if settings.callers.token_file and location not in unreadable_keys:
        from queuegate_server.rpc.tokens import TokenFile  # noqa: PLC0415 - slow, as below

        try:
            names = TokenFile(settings.callers.token_file).names
        except BadFile as error:
            yield source_map.diagnostic(location, str(error))
        else:
            for name in settings.callers.tokens.keys() - names:
                message = f"{settings.callers.token_file} has no line for this name"
                remedy = f"create one with `queuegate-server token {name}`"
                yield source_map.warning(("callers", "tokens", name), message, remedy)
    for above, tls in _certificates(settings):
        keys = [(*above, key) for key, _ in tls]
        if not any(key in unreadable_keys for key in keys):
            yield from _certificate_faults(above, tls, source_map)


def _certificate_faults(
    above: Location, tls: ListenerTls, source_map: SourceMap
) -> Iterator[Diagnostic]:
    from queuegate_server.transports.credentials import ReloadingCredentials  # noqa: PLC0415

    try:
        with _silence("queuegate_server.files"):  # reported below
            loaded = ReloadingCredentials(tls, "").value
    except BadFile as error:
        text = str(error)
        faulty = (key for key, path in tls if text.startswith(f"{path}: "))
        yield source_map.diagnostic((*above, next(faulty, "certificate_file")), text)
        return
    remedy = "issue one that is valid now, or correct this machine's clock"
    for key, path, fault in (
        ("certificate_file", tls.certificate_file, loaded.validity_fault()),
        ("client_ca_file", tls.client_ca_file, loaded.authority_fault()),
    ):
        if fault:
            yield source_map.warning((*above, key), f"{path}: {fault}", remedy)


@contextmanager
def _silence(name: str) -> Iterator[None]:
    """Suppress the warnings of a logger."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _audit_faults(
    settings: Settings, source_map: SourceMap, absent_files: set[Path] | None
) -> Iterator[Diagnostic]:
    """Yield an error if the audit log's folder does not exist on this machine."""
    path = settings.audit.path
    if path is None or path == STDOUT or absent_files is not None or path.parent.is_dir():
        return
    message = f"the folder {path.parent} does not exist"
    yield source_map.diagnostic(("audit", "path"), message, "create it, or name another file")


def _not_served(settings: Settings, source_map: SourceMap) -> Iterator[Diagnostic]:
    """Yield a warning for each policy that a server refuses to serve."""
    for position, source in enumerate(settings.sources):
        if source.kubernetes is not None and source.kubernetes.manifests:
            above: Location = ("policies", position) if settings.policies else ("policy",)
            message = "only commands that need no server read them; `serve` refuses them"
            remedy = "to run a server, remove the key, so that it follows the cluster's RBAC"
            yield source_map.warning((*above, "kubernetes", _MANIFESTS), message, remedy)


def _contradictions(settings: Settings, source_map: SourceMap) -> Iterator[Diagnostic]:
    """Yield warnings about contradictory resolver settings."""
    for name, resolver in settings.resolvers.items():
        if isinstance(resolver.options, ResolverOptions):
            for key, (message, remedy) in resolver.options.contradictions().items():
                yield source_map.warning(("resolvers", name, key), message, remedy)
