"""Which settings can change while the server runs, and which wait for a restart."""

from collections.abc import Iterator

from pydantic import BaseModel

from queuegate_server.settings.model import Settings


def with_changes(running: Settings, read: Settings) -> Settings:
    """Return the running settings with what may change of those that were read again.

    That is `log`, `drain`, `limits.max_concurrent_calls` up to what it was, the `cache` of
    partitions that were named before, and `callers`, but for the file of the tokens.
    """
    most = running.limits.max_concurrent_calls
    most = min(read.limits.max_concurrent_calls, most)
    partitions = {
        name: partition.model_copy(update={"cache": read.partitions[name].cache})
        if name in read.partitions
        else partition
        for name, partition in running.partitions.items()
    }
    limits = running.limits.model_copy(update={"max_concurrent_calls": most})
    return running.model_copy(
        update={
            "log": read.log,
            "drain": read.drain,
            "limits": limits,
            "partitions": partitions,
            "callers": read.callers.model_copy(update={"token_file": running.callers.token_file}),
        }
    )


def differences(one: Settings, other: Settings) -> list[str]:
    """Return the keys whose values differ; never a value, which may be a secret."""
    return sorted(_differences("", one, other))


def _differences(key: str, one: object, other: object) -> Iterator[str]:
    if one == other:
        return
    first, second = _parts(one), _parts(other)
    if first is None or second is None:
        yield key
        return
    for name in first.keys() | second.keys():
        below = f"{key}.{name}" if key else name
        if name in first and name in second:
            yield from _differences(below, first[name], second[name])
        else:
            yield below


def _parts(value: object) -> dict[str, object] | None:
    if isinstance(value, BaseModel):
        return dict(value)
    return dict(value) if isinstance(value, dict) else None
