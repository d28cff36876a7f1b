"""The settings of the process: what can be set, its bounds and its defaults.

Everything is frozen and every unknown key is refused. Durations are kept in seconds,
sizes in bytes.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from queuegate.policy.acl import AclNames
from queuegate.policy.names import DEFAULT_PARTITION
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.identity.options import CacheOptions
from queuegate_server.settings.audit import Audit
from queuegate_server.settings.callers import Callers
from queuegate_server.settings.connections import Connections
from queuegate_server.settings.listeners import (
    DEFAULT_LISTENERS,
    FileMode,
    FilePath,
    Listeners,
)
from queuegate_server.settings.ops import Ops
from queuegate_server.settings.resolvers import ConfiguredResolver, configured_resolver
from queuegate_server.settings.section import Section
from queuegate_server.settings.tracing import Tracing
from queuegate_server.units import Duration, Size

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _partition_name(name: str) -> str:
    """Spell `default` as the policy does, which takes any spelling of it."""
    if not name or name.startswith("["):
        raise PydanticCustomError(
            "partition",
            "not a partition name: {name}; write it as the policy does, without `[…]`",
            {"name": name or "(empty)"},
        )
    return DEFAULT_PARTITION if name.lower() == DEFAULT_PARTITION else name


def _partition_names(
    partitions: Mapping[str, "PartitionSettings"],
) -> Mapping[str, "PartitionSettings"]:
    spelled: dict[str, PartitionSettings] = {}
    for name, settings in partitions.items():
        known_as = _partition_name(name)
        if known_as in spelled:
            raise PydanticCustomError("partition", "the partition default is there twice")
        spelled[known_as] = settings
    return spelled


class PolicySource(Section):
    """Where a policy comes from."""

    format: Literal["yunikorn", "fair-scheduler", "capacity-scheduler"] | None = Field(
        None,
        description="How the file is written: as YuniKorn's queues.yaml, or as the file of one of "
        "YARN's schedulers. Without it, what the content looks like.",
    )
    path: FilePath | None = Field(
        None,
        description="The file; a relative path starts at the working folder. "
        "Without it a small embedded policy is served.",
    )
    partition: Annotated[str, AfterValidator(_partition_name)] = Field(
        DEFAULT_PARTITION,
        description="The partition that the queues of a YARN cluster are; YuniKorn's file has "
        "names of its own.",
    )
    yarn_site: FilePath | None = Field(
        None,
        description="The cluster's yarn-site.xml, for yarn.acl.enable and yarn.admin.acl. Without "
        "it ACLs are enforced and nobody administers the cluster.",
    )
    spark_defaults: FilePath | None = Field(
        None,
        description="The spark-defaults.conf of the applications of Spark in these partitions.",
    )
    daemon_user: str = Field(
        "",
        description="The user that YARN's ResourceManager runs as, always an administrator of the "
        "cluster.",
    )
    configs: FilePath | None = Field(
        None,
        description="Instead of `path`: the folder that the scheduler's ConfigMap "
        "yunikorn-configs is mounted to.",
    )
    defaults: FilePath | None = Field(
        None,
        description="The folder of yunikorn-defaults; a key of yunikorn-configs wins.",
    )
    group: Annotated[str, Field(pattern=r"^[-._a-zA-Z0-9]+$")] | None = Field(
        None,
        description="The queues are in the key GROUP.yaml. Without it, what the key "
        "service.policyGroup of the ConfigMaps says, else queues.",
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.path is not None and (self.configs or self.defaults):
            raise PydanticCustomError(
                "source", "path cannot be together with configs or defaults; keep one of them"
            )
        for_yarn = self.for_yarn
        if self.format not in {None, "yunikorn"}:
            for_yarn = ("format", *for_yarn)
        if for_yarn and (self.path is None or self.format == "yunikorn"):
            why = "format says yunikorn" if self.path else "path does not name one"
            raise PydanticCustomError(
                "source",
                "{keys} is for the file of a scheduler of YARN, and {why}; correct or remove it",
                {"keys": ", ".join(for_yarn), "why": why},
            )
        return self

    @property
    def for_yarn(self) -> tuple[str, ...]:
        """The keys that are set and mean nothing to a policy of YuniKorn."""
        stated = {
            "yarn_site": self.yarn_site is not None,
            "daemon_user": bool(self.daemon_user),
            "partition": self.partition != DEFAULT_PARTITION,
        }
        return tuple(key for key, is_set in stated.items() if is_set)

    @property
    def is_set(self) -> bool:
        """Whether a source is named."""
        return bool(self.path or self.configs or self.defaults)


class PartitionSettings(Section):
    """What is set for one partition."""

    resolver: str | None = Field(
        None,
        description="The name of one of `resolvers`. Without it, what the policy's "
        "usergroupresolver says.",
    )
    cache: CacheOptions = CacheOptions()
    acl_names: AclNames = Field(
        AclNames.YUNIKORN,
        description="Which names an ACL may list: those that YuniKorn accepts there, or "
        "(extended) also service accounts and groups with dots.",
    )
    semantics: Semantics = Field(
        Semantics.DOCUMENTED,
        description="For YARN: what holds where its documentation and Hadoop's code differ.",
    )
    trust_provided_groups: bool = Field(
        True,
        description="Whether groups in a request are used as they are; if not, they are "
        "ignored and resolved.",
    )


def _with_paths(sources: tuple[PolicySource, ...]) -> tuple[PolicySource, ...]:
    if not sources:
        raise PydanticCustomError("policies", "is empty; name a policy, or remove the key")
    if not all(source.is_set for source in sources):
        raise PydanticCustomError("policies", "each of them needs a path, configs or defaults")
    return sources


class Limits(Section):
    """Bounds on what callers may ask for."""

    max_concurrent_calls: int = Field(
        1000,
        ge=1,
        le=1_000_000,
        description="How many calls are served at once at most; half of them may be streams.",
    )
    max_wait: Annotated[Duration, Field(ge=0.001, le=60)] = Field(
        0.1,
        description="How long calls may wait for their turn. If longer waits last, that is an "
        "overload: then those that have waited for an eighth of it are refused; single calls, too, "
        "with transport native.",
    )
    max_message: Annotated[Size, Field(ge=_KIB, le=1024 * _MIB)] = Field(
        4 * _MIB, description="How large a request may be, in bytes."
    )
    stream_batches_in_flight: int = Field(
        16, ge=1, le=10_000, description="How many batches of one stream are worked on at once."
    )
    caller_rate: Annotated[float, Field(ge=0, le=1_000_000)] = Field(
        0.0,
        description="How many calls a second one caller may make in the long run; a message of a "
        "stream counts as a call. 0: as many as it likes.",
    )
    caller_burst: int = Field(
        100, ge=1, le=1_000_000, description="And how many at once after a pause."
    )
    connections: Connections = Connections()


class Drain(Section):
    """How the server ends."""

    grace: Annotated[Duration, Field(ge=0, le=3600)] = Field(
        20.0, description="How long calls under way may take to finish."
    )
    delay: Annotated[Duration, Field(ge=0, le=3600)] = Field(
        0.0,
        description="How long new calls are still taken after health says NOT_SERVING, so that "
        "a load balancer can notice.",
    )


class Log(Section):
    """What is logged on stderr, and how."""

    level: Annotated[
        Literal["debug", "info", "warning", "error", "critical"], BeforeValidator(_lower)
    ] = "info"
    format: Annotated[Literal["auto", "json", "console"], BeforeValidator(_lower)] = Field(
        "auto", description="auto: console on a terminal, otherwise json."
    )


class Settings(Section):
    """All settings. The file that holds them is usually called queuegate.yaml."""

    listen: Listeners = Field(
        DEFAULT_LISTENERS, description="Addresses, with what protects each of them."
    )
    unix_socket_mode: FileMode = Field(
        0o660, description="The file mode of Unix sockets that name none, in octal."
    )
    callers: Callers = Callers()
    reflection: bool = Field(
        True, description="Whether the API describes itself to callers with the role read."
    )
    transport: Annotated[Literal["grpcio", "native", "auto"], BeforeValidator(_lower)] = Field(
        "grpcio",
        description="What serves gRPC: grpcio; native, several times as fast, for one TCP address "
        "on loopback; auto, native where it is installed and serves all that is set.",
    )
    policy: PolicySource = PolicySource()
    policies: Annotated[tuple[PolicySource, ...], AfterValidator(_with_paths)] = Field(
        (), description="Several policies at once, each with its partitions, instead of `policy`."
    )
    resolvers: Mapping[str, Annotated[ConfiguredResolver, BeforeValidator(configured_resolver)]] = (
        Field(default_factory=dict, description="Sources of groups, by a name of your choice.")
    )
    partitions: Annotated[Mapping[str, PartitionSettings], AfterValidator(_partition_names)] = (
        Field(default_factory=dict, description="Settings of single partitions, by name.")
    )
    limits: Limits = Limits()
    drain: Drain = Drain()
    workers: int = Field(
        1,
        ge=1,
        le=64,
        description="How many processes serve on the same TCP ports; beyond 1, another one looks "
        "after them.",
    )
    worker_timeout: Annotated[Duration, Field(ge=1, le=3600)] = Field(
        30.0,
        description="One of several that does not answer its supervisor for so long is killed and "
        "replaced.",
    )
    log: Log = Log()
    ops: Ops = Ops()
    audit: Audit = Audit()
    tracing: Tracing = Tracing()

    @model_validator(mode="after")
    def _one_way_to_name_policies(self) -> "Settings":
        if self.policies and self.policy.is_set:
            raise PydanticCustomError("policies", "give either policy or policies, not both")
        return self

    @model_validator(mode="after")
    def _ports_only_for_several_workers(self) -> "Settings":
        if self.workers > 1 and any(each.parsed.path for each in self.listen):
            raise PydanticCustomError(
                "workers", "several workers cannot listen on a Unix socket; use workers: 1"
            )
        return self

    @property
    def sources(self) -> tuple[PolicySource, ...]:
        """Where policies come from; one without a path is the embedded one."""
        return self.policies or (self.policy,)
