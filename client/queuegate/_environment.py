"""How to connect, as the environment says where the program does not."""

import os
from typing import Final

from queuegate._settings import Tls

CA_FILE: Final = "QUEUEGATE_CA_FILE"
CERTIFICATE_FILE: Final = "QUEUEGATE_CERTIFICATE_FILE"
KEY_FILE: Final = "QUEUEGATE_KEY_FILE"
SERVER_NAME: Final = "QUEUEGATE_SERVER_NAME"
TOKEN_FILE: Final = "QUEUEGATE_TOKEN_FILE"  # noqa: S105 - the name of a variable


def tls() -> Tls | None:
    """Return how to use TLS, None if no variable says so. Raises ValueError."""
    values = [
        os.environ.get(name) or None for name in (CA_FILE, CERTIFICATE_FILE, KEY_FILE, SERVER_NAME)
    ]
    if not any(values):
        return None
    ca_file, certificate_file, key_file, server_name = values
    if (certificate_file is None) != (key_file is None):
        raise ValueError(f"{CERTIFICATE_FILE} and {KEY_FILE} belong together")
    return Tls(ca_file, certificate_file, key_file, server_name)


def token_file() -> str | None:
    """Return where the token is."""
    return os.environ.get(TOKEN_FILE) or None
