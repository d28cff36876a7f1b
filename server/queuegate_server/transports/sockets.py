"""Binds the addresses to listen on, and reports why one cannot be bound.

gRPC itself only logs the reason; it also takes over the Unix socket of a server that is
still running.
"""

import grp
import os
import pwd
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import grpc

from queuegate_server.runtime.tcp import CannotListen, open_tcp
from queuegate_server.settings.addresses import Address
from queuegate_server.transports.registry import Server


class _Binds(Protocol):
    def add_insecure_port(self, address: str, /) -> int: ...


def bind(
    server: _Binds,
    address: Address,
    socket_mode: int,
    *,
    owner: str | None = None,
    group: str | None = None,
) -> str:
    """Bind a gRPC server to an address, without TLS, and return it as text, with the port
    in use.

    A Unix socket gets its mode, and its owner and group by name or number, before anybody
    can connect. Raises CannotListen if the address is taken or not ours.
    """
    if address.path:
        _check_socket_path(address)
    uid = _account_number(address, "user", owner, lambda name: pwd.getpwnam(name).pw_uid)
    gid = _account_number(address, "group", group, lambda name: grp.getgrnam(name).gr_gid)
    try:
        # Nobody may connect until the socket is whose it should be.
        with _umask(0o777):
            port = server.add_insecure_port(_for_grpc(address))
    except RuntimeError:
        raise CannotListen(_why_not(address)) from None
    if address.path:
        try:
            os.chown(address.path, uid, gid)
            Path(address.path).chmod(socket_mode)
        except OSError as error:
            # With the mode that it has, nobody could look whether a server is behind it.
            Path(address.path).unlink(missing_ok=True)
            given = f"{owner or ''}:{group or ''}"
            raise CannotListen(
                f"{address.text!r}: the socket cannot be given to {given}: {error.strerror};"
                " only root may give it away, and others to groups of their own"
            ) from None
    return address.at_port(port)


def bind_with_tls(server: Server, address: Address, credentials: grpc.ServerCredentials) -> str:
    """Bind as `bind` does, to a port with TLS."""
    try:
        port = server.add_secure_port(_for_grpc(address), credentials)
    except RuntimeError:
        raise CannotListen(_why_not(address)) from None
    return address.at_port(port)


def _account_number(
    address: Address, kind: str, account: str | None, look_up: Callable[[str], int]
) -> int:
    """Return the number of a user or group; -1 if none is given."""
    if account is None:
        return -1
    if account.isdecimal():
        return int(account)
    try:
        return look_up(account)
    except KeyError:
        raise CannotListen(f"{address.text!r}: there is no {kind} {account!r}") from None


def _for_grpc(address: Address) -> str:
    # gRPC decodes the path of a Unix socket; ours is meant literally.
    return f"unix:{quote(address.path)}" if address.path else address.at_port(address.port)


def _check_socket_path(address: Address) -> None:
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


def _why_not(address: Address) -> str:
    """Find the reason by trying the same with a plain socket: gRPC only logs it."""
    if address.path:
        return f"{address.text!r}: cannot create the socket; check the rights on its folder"
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
