"""The directory with YuniKorn's LDAP settings, one file a key, as its Secret is mounted.

Keys, defaults and what is required are those of `usergroup_ldap_resolver.go` and
`ldap_validator.go` in YuniKorn's `pkg/common/security`.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

DEFAULT_SECRETS: Final = "/run/secrets/ldap"
"""Where YuniKorn looks for them."""

TRIMMED_FILE: Final = "BindPassword"
_REQUIRED: Final = (
    "Host",
    "Port",
    "BaseDN",
    "Filter",
    "GroupAttr",
    "ReturnAttr",
    "BindUser",
    TRIMMED_FILE,
)
_TRUE: Final = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_MOST_BYTES: Final = 65_536
_MOST_PORT: Final = 65_535
_NUMBER: Final = re.compile(r"\+?0*([0-9]{1,5})")


class BadSecrets(ValueError):
    """The directory does not hold what it must; the text names the files."""


def read_secrets(folder: Path) -> dict[str, Any]:
    """Return the resolver's options that the files of a folder stand for.

    Values are trimmed. Optional ones that cannot be read as a truth value are left at
    false, as YuniKorn does. The password itself stays in its file, `TRIMMED_FILE`, and is trimmed
    when it is read. Blocks. Raises BadSecrets.
    """
    texts = _files(folder)
    faults: list[str] = []
    missing = [key for key in _REQUIRED if not texts.get(key)]
    if missing:
        faults.append(f"has no {', '.join(missing)}, or they are empty")
    if texts.get("Port") and not _port(texts["Port"]):
        faults.append("has a Port that is not a number from 1 to 65535")
    if faults:
        raise BadSecrets(", and ".join(faults))
    return _options(folder, texts)


def _port(text: str) -> int:
    """Return the port as Go's `Atoi` reads it, 0 if it is none."""
    match = _NUMBER.fullmatch(text)
    number = int(match[1]) if match else 0
    return number if number <= _MOST_PORT else 0


def _options(folder: Path, texts: Mapping[str, str]) -> dict[str, Any]:
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
        # YuniKorn reads memberOf, whatever GroupAttr and ReturnAttr say.
        "groups_from": "member_of",
        "group_name_from": "rdn",
        "primary_group": "user_name",
    }


def _files(folder: Path) -> dict[str, str]:
    try:
        files = [
            path for path in folder.iterdir() if not path.name.startswith("..") and path.is_file()
        ]
        return {path.name: _text(path) for path in files if path.name in _KEYS}
    except OSError as error:
        raise BadSecrets(f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadSecrets("has a file that is not UTF-8") from None


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MOST_BYTES).decode().strip()


_KEYS: Final = frozenset((*_REQUIRED, "Insecure", "SSL"))
