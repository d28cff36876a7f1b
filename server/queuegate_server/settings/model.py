"""The process's settings, with their keys, bounds and defaults.

Sections are frozen and reject unknown keys. Durations are in seconds, sizes in bytes.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from queuegate.policy.acl import AclNames
from queuegate.policy.named_grants import SYSTEM
from queuegate.policy.names import DEFAULT_PARTITION
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.config_fields import DAY_SECONDS, Duration, Section, distinct_keys
from queuegate_server.formats.kubernetes_rbac.grants import RbacOptions
from queuegate_server.formats.registry import FormatOptions
from queuegate_server.formats.yarn.load import YarnOptions
from queuegate_server.identity.options import PartitionOptions
from queuegate_server.identity.resolver_types import (
    CHAIN,
    BadResolverType,
    ConfiguredResolver,
    options_type,
    types,
)
from queuegate_server.settings.admission import Admission
from queuegate_server.settings.callers import Callers
from queuegate_server.settings.fleet import Fleet
from queuegate_server.settings.http import Http
from queuegate_server.settings.limits import Drain, Limits, Sync
from queuegate_server.settings.listeners import DEFAULT_LISTENERS, FilePath, ListenerList
from queuegate_server.settings.observability import Audit, Console, Log, Ops, Tracing, lower


def _partition_name(name: str) -> str:
    """Return a partition's canonical name. YuniKorn accepts `default` in any case."""
    if not name or name.startswith("["):
        raise ValueError(
            f"{name or '(empty)'} is not a partition name: write it as in the policy, without `[…]`"
        )
    return DEFAULT_PARTITION if name.lower() == DEFAULT_PARTITION else name


def _paths(value: object) -> object:
    """Wrap a single path, as `--policy` gives it, in a list."""
    return [value] if isinstance(value, str) else value


def _name_prefix(prefix: str) -> str:
    """Return a prefix that cannot turn another name into one of Kubernetes' own."""
    if prefix == "-":
        raise ValueError("must be empty if the API server adds no prefix (its option is then -)")
    if prefix and (prefix.startswith(SYSTEM) or SYSTEM.startswith(prefix)):
        raise ValueError("must not begin like system:, which Kubernetes reserves for its own names")
    if not prefix.isprintable():
        raise ValueError("has a control character")
    return prefix


NamePrefix = Annotated[str, Field(max_length=256), AfterValidator(_name_prefix)]


class KubernetesPolicy(Section):
    """A policy that is Kubernetes RBAC itself: who may use which queue of Kueue, KAI-Scheduler,
    Volcano or Koordinator. A server follows a cluster's RBAC; commands that need no server read
    manifests.
    """

    kubeconfig: FilePath | None = None
    """The kubeconfig with the address of the API server, and with a token or certificate. If
    unset, the pod's account is used. Programs that print credentials (`exec`) are refused."""
    max_age: Annotated[Duration, Field(ge=120, le=DAY_SECONDS)] = 600.0
    """How long the last RBAC that was read is used without a sign of life from the API server.
    After that, every question fails with an error.
    """
    manifests: Annotated[tuple[FilePath, ...], BeforeValidator(_paths), Field(min_length=1)] = ()
    """Instead of a cluster, for commands that need no server: files and folders with roles,
    bindings and queues, as `kubectl get -o yaml`, `helm template` and `kustomize build` print them.
    A folder stands for all YAML and JSON files below it."""
    verb: Annotated[str, Field(pattern=r"^[a-z]+$")] = "use"
    """The verb that allows the use of a queue in RBAC rules."""
    namespaced_grants: bool = False
    """Whether a RoleBinding may allow objects in its namespace to use a queue of KAI-Scheduler or
    Volcano, although such a queue has no namespace. A user with rights on all resources of a
    namespace may then use every such queue there."""

    users_prefix: NamePrefix = ""
    """The prefix that the API server adds to user names (`--oidc-username-prefix`), such as
    `oidc:`. Names in directories, and in questions except the API server's own, lack the prefix.
    Names that begin with `system:` never have a prefix.
    """
    groups_prefix: NamePrefix = ""
    """The prefix that the API server adds to group names (`--oidc-groups-prefix`). The same rules
    apply.
    """

    @model_validator(mode="after")
    def _is_installed(self) -> Self:
        if not self.manifests and find_spec("msgspec") is None:
            raise ValueError(
                "following a cluster requires msgspec: pip install 'queuegate[admission]'"
            )
        return self

    @property
    def rbac(self) -> RbacOptions:
        """The options for reading RBAC."""
        return RbacOptions(self.verb, self.namespaced_grants, self.users_prefix, self.groups_prefix)


class PolicySource(Section):
    """The source of a policy."""

    format: Literal["yunikorn", "fair-scheduler", "capacity-scheduler"] | None = None
    """The file's format: YuniKorn's queues.yaml, or a YARN scheduler's file. If unset, the format
    is detected from the content."""
    path: FilePath | None = None
    """The file; a relative path is relative to the working directory. If unset, a small embedded
    policy is served."""
    partition: Annotated[str, AfterValidator(_partition_name)] = DEFAULT_PARTITION
    """The partition for a YARN cluster's queues; a YuniKorn file names its own partitions."""
    yarn_site: FilePath | None = None
    """The ResourceManager's yarn-site.xml, with yarn.acl.enable, yarn.admin.acl and the keys that
    apply in addition to capacity-scheduler.xml. It may be gzipped or in a ConfigMap manifest. If
    unset, ACLs are enforced and the cluster has no administrators.
    """
    spark_defaults: FilePath | None = None
    """The spark-defaults.conf for Spark applications in these partitions."""
    daemon_user: str = ""
    """The user that YARN's ResourceManager runs as, who is a cluster administrator. With semantics
    hadoop, the cluster's administrators administer applications but not queues."""
    configs: FilePath | None = None
    """Instead of `path`: the folder where the scheduler's ConfigMap yunikorn-configs is mounted."""
    defaults: FilePath | None = None
    """The folder where yunikorn-defaults is mounted; yunikorn-configs overrides its keys."""
    group: Annotated[str, Field(pattern=r"^[-._a-zA-Z0-9]+$")] | None = None
    """The policy group. Its queues are in the key GROUP.yaml. If unset, the ConfigMaps' key
    service.policyGroup names it; the default is queues."""
    kubernetes: KubernetesPolicy | None = None
    """Instead of `path`: Kubernetes RBAC."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.path is not None and (self.configs or self.defaults):
            raise ValueError("path cannot be combined with configs or defaults; keep one of them")
        if self.kubernetes is not None:
            others = {key for key in self.model_fields_set if key not in {"kubernetes", "path"}}
            if self.path is not None or others:
                keys = ", ".join(sorted({*others, *(["path"] if self.path else [])}))
                raise ValueError(f"kubernetes cannot be combined with {keys}; keep one of them")
            return self
        for_yarn = self.for_yarn
        if self.format not in {None, "yunikorn"}:
            for_yarn = ("format", *for_yarn)
        if for_yarn and (self.path is None or self.format == "yunikorn"):
            why = "format is yunikorn" if self.path else "path is not set"
            raise ValueError(
                f"{', '.join(for_yarn)} applies to a YARN scheduler's file, but {why};"
                " correct or remove it"
            )
        return self

    @property
    def for_yarn(self) -> tuple[str, ...]:
        """The keys that are set here but apply only to YARN scheduler files."""
        keys = {
            "yarn_site": self.yarn_site is not None,
            "daemon_user": bool(self.daemon_user),
            "partition": self.partition != DEFAULT_PARTITION,
        }
        return tuple(key for key, is_set in keys.items() if is_set)

    @property
    def is_set(self) -> bool:
        """Whether the source is configured."""
        return bool(self.path or self.configs or self.defaults or self.kubernetes)

    @property
    def is_own_cluster(self) -> bool:
        """Whether the source is this pod's cluster, which is followed with the pod's account."""
        return self.is_followed and not (self.kubernetes and self.kubernetes.kubeconfig)

    @property
    def is_followed(self) -> bool:
        """Whether the source is a cluster, which has no files."""
        return self.kubernetes is not None and not self.kubernetes.manifests


class PartitionSettings(PartitionOptions):
    """Settings for one partition."""

    acl_names: AclNames = AclNames.YUNIKORN
    """Which names a YuniKorn ACL may list. `yunikorn`: names that YuniKorn accepts; `extended`:
    also service accounts and groups with dots; `any`: all names without spaces, commas or control
    characters. With admission.queues, the default is `any`, unless YuniKorn is listed there."""
    semantics: Semantics = Semantics.DOCUMENTED
    """For YARN: which semantics apply where its documentation and Hadoop's code differ."""
    trust_provided_groups: bool = True
    """Whether to use the groups in a request. If not, they are ignored and the user's groups are
    resolved."""


RESOLVER_TYPE: Final = "type"


def _configured_resolver(value: object, info: ValidationInfo) -> object:
    """Validate a resolver with the options model for its `type`.

    The locations in errors include the option's key, as in any other section.
    """
    if not isinstance(value, Mapping | None):
        raise PydanticCustomError("model_type", "must be a section of keys and values")
    options = dict(value or {})
    name = options.pop(RESOLVER_TYPE, None)
    if not name:
        known = ", ".join(sorted({CHAIN, *types()}))
        message = f"is required: choose one of {known}"
        raise _error_at((RESOLVER_TYPE,), message, "missing")
    try:
        model = options_type(str(name))
    except BadResolverType as error:
        raise _error_at((RESOLVER_TYPE,), str(error)) from None
    return ConfiguredResolver(str(name), model.model_validate(options, context=info.context))


def _error_at(key: tuple[str, ...], message: str, code: str = "value_error") -> ValidationError:
    """Return an error about a key in the section being validated."""
    # Pass the message as a value, because braces in the template would be placeholders.
    error = PydanticCustomError(code, "{message}", {"message": message})
    details = InitErrorDetails(type=error, loc=key, input=None)
    return ValidationError.from_exception_data("settings", [details])


def _with_paths(sources: tuple[PolicySource, ...]) -> tuple[PolicySource, ...]:
    if not sources:
        raise ValueError("is empty: name a policy, or remove the key")
    if not all(source.is_set for source in sources):
        raise ValueError("each entry needs path, configs, defaults or kubernetes")
    return sources


class Settings(Section):
    """All settings, usually kept in a file called queuegate.yaml."""

    listen: ListenerList = DEFAULT_LISTENERS
    """The addresses to listen on, and the protection of each."""
    http: Http = Http()
    callers: Callers = Callers()
    reflection: bool = True
    """Whether to serve gRPC reflection to callers with the `read` role."""
    transport: Annotated[Literal["grpcio", "native", "auto"], BeforeValidator(lower)] = "grpcio"
    """The gRPC transport: grpcio; native, which is several times as fast, but is only for a single
    TCP address on loopback and for trusted callers, because it reads and unpacks requests before
    it checks their size; auto, which uses native if it is installed and supports all settings."""
    policy: PolicySource = PolicySource()
    policies: Annotated[tuple[PolicySource, ...], AfterValidator(_with_paths)] = ()
    """Several policies, each with its own partitions, instead of `policy`."""
    resolvers: Mapping[
        str, Annotated[ConfiguredResolver, BeforeValidator(_configured_resolver)]
    ] = Field(default_factory=dict)
    """Sources of groups, under names of your choice."""
    partitions: Annotated[
        Mapping[str, PartitionSettings], distinct_keys("partition", _partition_name)
    ] = Field(default_factory=dict)
    """Settings of individual partitions, by name."""
    limits: Limits = Limits()
    drain: Drain = Drain()
    workers: int = Field(1, ge=1, le=64)
    """The number of processes that share the TCP ports. If there are several, a supervisor runs
    them."""
    log: Log = Log()
    ops: Ops = Ops()
    console: Console = Console()
    audit: Audit = Audit()
    tracing: Tracing = Tracing()
    sync: Sync = Sync()
    fleet: Fleet = Fleet()
    admission: Admission = Admission()

    def partition(self, name: str) -> PartitionSettings:
        """Return the partition's settings."""
        return self.partitions.get(name) or PartitionSettings()

    def format_options(
        self,
        source: PolicySource,
        site: tuple[bytes, str] | None,
        resolver_types: frozenset[str],
        *,
        is_bare: bool = False,
    ) -> FormatOptions:
        """Return the options for reading a source's policy. `site` is its yarn-site.xml and name.

        The other arguments are those of `FormatOptions`.
        """
        name = source.partition
        yarn = YarnOptions(name, self.partition(name).semantics, site, source.daemon_user)
        acl_names = {
            name: each.acl_names
            for name, each in self.partitions.items()
            if "acl_names" in each.model_fields_set
        }
        rbac = source.kubernetes.rbac if source.kubernetes else RbacOptions()
        return FormatOptions(
            acl_names,
            self.default_acl_names,
            resolver_types,
            yarn,
            is_bare=is_bare,
            rbac=rbac,
        )

    @property
    def default_acl_names(self) -> AclNames:
        """The default of `acl_names`: all names if queues are checked for schedulers that do not
        read the policy, because the names of Kubernetes service accounts contain colons.
        """
        queues = self.admission.queues
        if queues is None or queues.schedulers.yunikorn is not None:
            return AclNames.YUNIKORN
        return AclNames.ANY

    @property
    def yarn_partitions(self) -> frozenset[str]:
        """The names of partitions whose settings apply only to YARN."""
        documented = Semantics.DOCUMENTED
        return frozenset(
            name for name, each in self.partitions.items() if each.semantics is not documented
        )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.policies and self.policy.is_set:
            raise _error_at(("policies",), "set either policy or policies, not both")
        served = (*self.listen, *self.http.listen)
        if self.workers > 1 and any(each.parsed.path for each in served):
            message = "several workers cannot listen on a Unix socket; use workers: 1"
            raise _error_at(("workers",), message)
        followed = sum(source.is_followed for source in self.sources)
        if followed > 1:
            raise _error_at(("policies",), "only one policy can be a cluster's RBAC")
        if followed and self.workers > 1:
            message = "several workers cannot follow a cluster's RBAC; use workers: 1"
            raise _error_at(("workers",), message)
        if message := self._schedulers_fault():
            raise _error_at(("admission", "queues", "schedulers"), message)
        if self.console.enabled and (message := self._console_fault()):
            raise _error_at(("console", "enabled"), message)
        listeners = (*served, self.ops.listener if self.console.enabled else None)
        if self.callers.certificates and not any(
            each and each.tls and each.tls.client_ca_file for each in listeners
        ):
            message = (
                "callers cannot present certificates: set tls.client_ca_file for an address of"
                " listen or http.listen, or remove the certificates"
            )
            raise _error_at(("callers", "certificates"), message)
        return self

    def is_rbac(self, partition: str) -> bool:
        """Return whether a partition's policy is Kubernetes RBAC."""
        return partition == DEFAULT_PARTITION and any(each.kubernetes for each in self.sources)

    def _schedulers_fault(self) -> str:
        """Return why the webhook's schedulers and the policy do not fit, or "" if they do."""
        queues = self.admission.queues
        if queues is None:
            return ""
        schedulers = queues.schedulers
        is_rbac = self.is_rbac(queues.partition)
        return schedulers.unfit_for_rbac() if is_rbac else schedulers.overlap()

    def _console_fault(self) -> str:
        """Return why the console cannot be served, or "" if it can."""
        port = self.ops.listener
        if port is None:
            return "requires ops.listen: set the address of its port"
        if self.workers > 1:
            return "requires workers: 1"
        if port.is_open:
            return (
                f"the console at {port.address} can be reached from other machines: set ops.tls"
                " (certificate_file, key_file), or ops.listen to a loopback address"
            )
        by_certificate = self.callers.certificates and port.tls and port.tls.client_ca_file
        if not port.parsed.is_local and not self.callers.tokens and not by_certificate:
            return (
                "a console that is reachable beyond loopback requires callers who can identify"
                " themselves: list callers.tokens, or callers.certificates and"
                " ops.tls.client_ca_file"
            )
        return ""

    @property
    def sources(self) -> tuple[PolicySource, ...]:
        """The policies to serve. A source that is not set stands for the embedded policy."""
        return self.policies or (self.policy,)
