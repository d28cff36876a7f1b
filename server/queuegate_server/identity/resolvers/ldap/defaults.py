"""Defaults for unset options: presets, and YuniKorn's LDAP Secret.

The Secret is mounted as a directory with one file per key. Required keys, optional keys and their
defaults follow `usergroup_ldap_resolver.go` and `ldap_validator.go` in YuniKorn's
`pkg/common/security`. The files are read when the settings are loaded. The password is also reread
for each connection.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from queuegate_server.files.safe_open import read_regular
from queuegate_server.files.toml import read_toml

PRESETS: Final[Mapping[str, Mapping[str, Any]]] = read_toml(__file__, "presets.toml")

DEFAULT_SECRETS: Final = "/run/secrets/ldap"
"""The directory in which YuniKorn expects its Secret."""

TRIMMED_FILE: Final = "BindPassword"
_REQUIRED: Final = (
    "Host", "Port", "BaseDN", "Filter", "GroupAttr", "ReturnAttr", "BindUser", TRIMMED_FILE,
)  # fmt: skip
_KEYS: Final = frozenset((*_REQUIRED, "Insecure", "SSL"))
_TRUE: Final = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_MAX_BYTES: Final = 65_536
_MAX_PORT: Final = 65_535
_NUMBER: Final = re.compile(r"\+?0*([0-9]{1,5})")


class BadSecrets(ValueError):
    """The Secret is unreadable or invalid. The message is a predicate, such as "has no Host"."""


def read_secrets(folder: Path) -> dict[str, Any]:
    """Convert a Secret's keys to resolver options. Blocks. Raises BadSecrets.

    Values are trimmed. As in YuniKorn, invalid values of optional booleans mean false. The options
    contain only the path of the password's file (TRIMMED_FILE); its content is trimmed when read.
    """
    try:
        texts = {
            path.name: read_regular(path, _MAX_BYTES).decode().strip()
            for path in folder.iterdir()
            if path.name in _KEYS and path.is_file()
        }
    except OSError as error:
        raise BadSecrets(f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadSecrets("has a file that is not UTF-8") from None
    faults: list[str] = []
    missing = [key for key in _REQUIRED if not texts.get(key)]
    if missing:
        faults.append(f"has no {', '.join(missing)}, or they are empty")
    if texts.get("Port") and not _port(texts["Port"]):
        faults.append("has a Port that is not a number from 1 to 65535")
    if faults:
        raise BadSecrets(", and ".join(faults))
    scheme = "ldaps" if texts.get("SSL") in _TRUE else "ldap"
    host = texts["Host"]
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    return {
        "urls": [f"{scheme}://{host}:{_port(texts['Port'])}"],
        "user_base": texts["BaseDN"],
        "user_filter": texts["Filter"],
        "bind_dn": texts["BindUser"],
        "bind_password_file": str(folder / TRIMMED_FILE),
        "verify_certificate": texts.get("Insecure") not in _TRUE,
        # As YuniKorn does, use memberOf regardless of GroupAttr and ReturnAttr.
        "groups_from": "member_of",
        "group_name_from": "rdn",
        "primary_group": "user_name",
    }


def _port(text: str) -> int:
    """Parse a port like Go's `Atoi`; return 0 if it is invalid."""
    match = _NUMBER.fullmatch(text)
    number = int(match[1]) if match else 0
    return number if number <= _MAX_PORT else 0


def preset_defaults(given: dict[str, Any]) -> Mapping[str, Any]:
    """Return the defaults of the preset named in `given`. Unknown presets are reported later."""
    name = given.get("preset")
    return PRESETS.get(name, {}) if isinstance(name, str) else {}
