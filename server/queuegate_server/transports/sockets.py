"""Binds listening addresses, and reports why binding fails.

gRPC itself would only log the reason, and would take over a running server's Unix socket.
"""

import grp
import os
import pwd
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from queuegate_server.runtime.tcp import CannotListen, open_tcp
from queuegate_server.settings.listeners import ListenAddress


def bind(
    add_port: Callable[[str], int],
    address: ListenAddress,
    socket_mode: int,
    *,
    owner: str | None = None,
    group: str | None = None,
) -> str:
    """Bind a gRPC server to an address; return the address as text, with the actual port.

    Args:
        add_port: The server's method for adding a port, with or without TLS.
        address: The address.
        socket_mode: The file mode of a Unix socket.
        owner: The owner of a Unix socket, by name or number.
        group: The group of a Unix socket, by name or number.

    Raises:
        CannotListen: The address is in use or not local, or its Unix socket cannot be set up.
    """
    if address.path:
        _check_socket_path(address)
    uid = _account_number(address, "user", owner, lambda name: pwd.getpwnam(name).pw_uid)
    gid = _account_number(address, "group", group, lambda name: grp.getgrnam(name).gr_gid)
    # gRPC unescapes the path of a Unix socket, so escape it.
    text = f"unix:{quote(address.path)}" if address.path else address.at_port(address.port)
    try:
        # No client may connect before the socket has its owner, group and mode.
        with _umask(0o777):
            port = add_port(text)
    except RuntimeError:
        raise CannotListen(_bind_failure(address)) from None
    if address.path:
        try:
            _hand_over(address, uid, gid, f"{owner or ''}:{group or ''}", socket_mode)
        except CannotListen:
            # A later server could not check whether a socket with mode 0 is in use.
            Path(address.path).unlink(missing_ok=True)
            raise
    return address.at_port(port)


def _hand_over(address: ListenAddress, uid: int, gid: int, account: str, mode: int) -> None:
    """Give a Unix socket its owner, group and mode. Raises CannotListen.

    `account` is the owner and the group as text, for messages.
    """
    try:
        os.chown(address.path, uid, gid)
    except OSError as error:
        raise CannotListen(
            f"{address.text!r}: the socket cannot be given to {account}: {error.strerror};"
            " only root can change the owner; other users can only choose one of their groups"
        ) from None
    try:
        Path(address.path).chmod(mode)
    except OSError as error:
        raise CannotListen(
            f"{address.text!r}: the mode of the socket cannot be set: {error.strerror}"
        ) from None


def _account_number(
    address: ListenAddress, kind: str, account: str | None, look_up: Callable[[str], int]
) -> int:
    """Return the ID of a user or group; -1 if `account` is None."""
    if account is None:
        return -1
    if account.isdecimal():
        return int(account)
    try:
        return look_up(account)
    except KeyError:
        raise CannotListen(f"{address.text!r}: there is no {kind} {account!r}") from None


def _check_socket_path(address: ListenAddress) -> None:
    """Raise CannotListen if a Unix socket cannot be created, because its folder is missing, another
    server listens on it, or something else has its name.
    """
    path = Path(address.path)
    if not path.parent.is_dir():
        raise CannotListen(f"{address.text!r}: the folder {str(path.parent)!r} does not exist")
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise CannotListen(f"{address.text!r}: {address.path!r} exists and is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(address.path)
        except ConnectionRefusedError:
            return
        except OSError as error:
            raise CannotListen(f"{address.text!r}: {error.strerror or error}") from None
    raise CannotListen(f"{address.text!r}: another server is listening on this socket")


def _bind_failure(address: ListenAddress) -> str:
    """Return an error message for a failed bind. Binds a plain socket to find the reason."""
    if address.path:
        return f"{address.text!r}: cannot create the socket; check the permissions of its folder"
    try:
        open_tcp(address.host, address.port).close()
    except CannotListen as error:
        return str(error)
    return f"{address.text!r}: cannot be bound"


@contextmanager
def _umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)
