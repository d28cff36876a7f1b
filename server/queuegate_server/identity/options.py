"""Settings for the group cache and for chains, and settings common to all resolvers."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from queuegate_server.config_fields import DAY_SECONDS, Duration, Section, distinct


class CacheOptions(Section):
    """TTLs and bounds for a partition's group cache. Durations in seconds."""

    positive_ttl: Annotated[Duration, Field(ge=0.001, le=7 * DAY_SECONDS)] = 300.0
    """How long a user's groups are cached before the resolver is queried again."""
    negative_ttl: Annotated[Duration, Field(ge=0.001, le=DAY_SECONDS)] = 30.0
    """How long a user who was not found is assumed not to exist."""
    failure_ttl: Annotated[Duration, Field(ge=0.001, le=DAY_SECONDS)] = 5.0
    """How long to wait before retrying a user's failed lookup."""
    max_entries: int = Field(100_000, ge=1, le=10_000_000)
    """The maximum number of cached users with groups and, separately, of cached names without a
    user or with a failed lookup."""
    max_stale: Annotated[Duration, Field(ge=0, le=30 * DAY_SECONDS)] = 3600.0
    """How long expired groups may still be used while the resolver is unavailable or busy with
    other users. 0: never."""


class PartitionOptions(Section):
    """Settings for the resolution of groups in one partition."""

    resolver: str | None = None
    """The name of an entry in `resolvers`. Default: the policy's usergroupresolver."""
    cache: CacheOptions = CacheOptions()


class ResolverOptions(Section):
    """Settings common to all resolver types. Durations in seconds."""

    lookup_timeout: Annotated[Duration, Field(ge=0.001, le=60)] = 5.0
    """How long one lookup may take, including failover and token requests."""
    max_concurrent: int = Field(64, ge=1, le=10_000)
    """The maximum number of concurrent lookups."""

    def contradictions(self) -> Mapping[str, tuple[str, str]]:
        """Return contradictions between settings.

        Each is a message and a remedy, keyed by the name of one of the settings involved.
        """
        return {}


def unused(options: ResolverOptions, cause: str, *keys: str) -> dict[str, tuple[str, str]]:
    """Return a message and a remedy for each setting that is given although it has no effect."""
    return {
        key: (f"{key} has no effect, because {cause}", "delete this setting, or set changes")
        for key in keys
        if key in options.model_fields_set
    }


def _check_names(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(names) == 1:
        raise ValueError(f"a chain needs at least two resolvers, and this one has only {names[0]}")
    return names


ChainMode = Literal["first", "union"]


class ChainOptions(Section):
    """Settings for a chain of resolvers, queried in order."""

    resolvers: Annotated[
        tuple[str, ...], Field(min_length=1), AfterValidator(_check_names), distinct("resolver")
    ]
    """The names of the resolvers, in the order in which they are queried."""
    mode: ChainMode = "first"
    """first: the groups from the first resolver that finds the user; union: the groups from all
    resolvers."""
