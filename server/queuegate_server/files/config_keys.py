"""YuniKorn's ConfigMaps: their names, and the meaning of their keys."""

from collections.abc import Mapping
from typing import Final

DEFAULTS: Final = "yunikorn-defaults"
"""The ConfigMap that comes with the scheduler."""
CONFIGS: Final = "yunikorn-configs"
"""The ConfigMap that administrators edit, whose keys take precedence."""
POLICY_GROUP: Final = "service.policyGroup"
"""The key that names the policy group GROUP. The scheduler then reads the key GROUP.yaml."""
_GZIP: Final = ".gz"


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
