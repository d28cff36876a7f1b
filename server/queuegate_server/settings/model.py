"""The settings of the process: what can be set, its bounds and its defaults.

Everything is frozen and every unknown key is refused. Durations are kept in seconds,
sizes in bytes.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from queuegate_server.identity.options import CacheOptions
from queuegate_server.policy.acl import AclNames
from queuegate_server.policy.names import DEFAULT_PARTITION
from queuegate_server.policy.yarn_acl import Semantics
from queuegate_server.settings.resolvers import ConfiguredResolver, configured_resolver
from queuegate_server.units import Duration, Size

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB
_MOST_MODE: Final = 0o777
_OCTAL: Final = re.compile(r"(?:0o?)?[0-7]{3}")


def _addresses(value: object) -> object:
    """Take `a,b` for a list: a variable of the environment has no better way to say it."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    return value


def _all_different(addresses: tuple[str, ...]) -> tuple[str, ...]:
    for position, address in enumerate(addresses):
        if not address:
            raise PydanticCustomError("address", "an address must not be empty")
        if address in addresses[:position] and not address.endswith(":0"):
            raise PydanticCustomError(
                "address", "the address {address} is listed twice", {"address": address}
            )
    return addresses


def _file_mode(value: object) -> object:
    if isinstance(value, str):
        if not _OCTAL.fullmatch(value):
            raise PydanticCustomError("mode", "not a file mode: write it in octal, such as 0660")
        return int(value.removeprefix("0o"), 8)
    return value


def _path(value: object) -> object:
    if isinstance(value, str) and (not value or "\0" in value):
        raise PydanticCustomError("path", "not a path of a file")
    return value


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _partition_names(
    partitions: Mapping[str, "PartitionSettings"],
) -> Mapping[str, "PartitionSettings"]:
    """Spell `default` as the policy does, which takes any spelling of it."""
    spelled: dict[str, PartitionSettings] = {}
    for name, settings in partitions.items():
        known_as = DEFAULT_PARTITION if name.lower() == DEFAULT_PARTITION else name
        if not name or name.startswith("["):
            raise PydanticCustomError(
                "partition",
                "not a partition name: {name}; write it as the policy does, without `[…]`",
                {"name": name or "(empty)"},
            )
        if known_as in spelled:
            raise PydanticCustomError("partition", "the partition default is there twice")
        spelled[known_as] = settings
    return spelled


class Section(BaseModel):
    """What all parts of the settings have in common."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _partition_name(name: str) -> str:
    if not name or name.startswith("["):
        raise PydanticCustomError("partition", "not a partition name")
    return DEFAULT_PARTITION if name.lower() == DEFAULT_PARTITION else name


class PolicySource(Section):
    """Where a policy comes from."""

    format: Literal["yunikorn", "fair-scheduler", "capacity-scheduler"] | None = Field(
        None,
        description="How the file is written: as YuniKorn's queues.yaml, or as the file of one of "
        "YARN's schedulers. Without it, what the content looks like.",
    )
    path: Annotated[Path, BeforeValidator(_path)] | None = Field(
        None,
        description="The file; a relative path starts at the working folder. "
        "Without it a small embedded policy is served.",
    )
    partition: Annotated[str, AfterValidator(_partition_name)] = Field(
        DEFAULT_PARTITION,
        description="The partition that the queues of a YARN cluster are; YuniKorn's file has "
        "names of its own.",
    )
    yarn_site: Annotated[Path, BeforeValidator(_path)] | None = Field(
        None,
        description="The cluster's yarn-site.xml, for yarn.acl.enable and yarn.admin.acl. Without "
        "it ACLs are enforced and nobody administers the cluster.",
    )
    spark_defaults: Annotated[Path, BeforeValidator(_path)] | None = Field(
        None,
        description="The spark-defaults.conf of the applications of Spark in these partitions.",
    )
    daemon_user: str = Field(
        "",
        description="The user that YARN's ResourceManager runs as, always an administrator of the "
        "cluster.",
    )
    configs: Annotated[Path, BeforeValidator(_path)] | None = Field(
        None,
        description="Instead of `path`: the folder that the scheduler's ConfigMap "
        "yunikorn-configs is mounted to.",
    )
    defaults: Annotated[Path, BeforeValidator(_path)] | None = Field(
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
        return self

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
    if not all(source.is_set for source in sources):
        raise PydanticCustomError("policies", "each of them needs a path, configs or defaults")
    return sources


class Limits(Section):
    """Bounds on what callers may ask for."""

    max_concurrent_calls: int = Field(
        1000, ge=1, le=1_000_000, description="How many calls are served at once at most."
    )
    max_message: Annotated[Size, Field(ge=_KIB, le=1024 * _MIB)] = Field(
        4 * _MIB, description="How large a request may be, in bytes."
    )
    stream_batches_in_flight: int = Field(
        16, ge=1, le=10_000, description="How many batches of one stream are worked on at once."
    )


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

    listen: Annotated[
        tuple[str, ...],
        BeforeValidator(_addresses),
        AfterValidator(_all_different),
        Field(min_length=1),
    ] = Field(("127.0.0.1:50051",), description="Addresses: host:port, [ipv6]:port, unix:/path.")
    unix_socket_mode: Annotated[int, BeforeValidator(_file_mode), Field(ge=0, le=_MOST_MODE)] = (
        Field(0o660, description="The file mode of Unix sockets, in octal.")
    )
    transport: Annotated[Literal["grpcio", "native", "auto"], BeforeValidator(_lower)] = Field(
        "grpcio",
        description="What serves gRPC: grpcio; native, several times as fast, for one TCP address "
        "without TLS; auto, native where the extra is installed and the address is on loopback.",
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
    log: Log = Log()

    @model_validator(mode="after")
    def _one_way_to_name_policies(self) -> "Settings":
        if self.policies and self.policy.is_set:
            raise PydanticCustomError("policies", "give either policy or policies, not both")
        return self

    @property
    def sources(self) -> tuple[PolicySource, ...]:
        """Where policies come from; one without a path is the embedded one."""
        return self.policies or (self.policy,)
