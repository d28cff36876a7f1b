"""Many requests at once on one connection, each with a time limit, and no threads.

python-ldap is used through its asynchronous calls only, on a descriptor that does not
block; answers are fetched when the event loop says that there are bytes.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import ldap
import ldap.controls

from queuegate_server.identity.resolvers.ldap import result_codes
from queuegate_server.identity.resolvers.ldap.errors import LdapFault, Overloaded, ServerFault
from queuegate_server.identity.resolvers.ldap.options import LdapOptions
from queuegate_server.identity.resolvers.ldap.paging import PagedResults
from queuegate_server.identity.resolvers.ldap.transport import Transport
from queuegate_server.identity.resolvers.ldap.write_room import WriteRoom

_LAST_BYTES_SECONDS: Final = 0.25


class Answer(NamedTuple):
    """What a server answered to one request."""

    entries: list[tuple[str | None, Any]]
    """DN and attributes; referrals have no DN."""
    controls: Sequence[Any]


class Connection:
    """A connection that libldap speaks on. Used from one event loop."""

    def __init__(self, transport: Transport, descriptor: int, options: LdapOptions) -> None:
        """Take the transport and the descriptor that came of handing it over."""
        self._transport = transport
        self._options = options
        self._loop = asyncio.get_running_loop()
        self.server = str(transport.url)
        self.opened = self.heard = time.monotonic()
        self.used = self.opened
        self.lost: str | None = None
        """Why the connection ended, once it did."""
        self.ended = asyncio.Event()
        self.quiet = asyncio.Event()
        """Set while no look-up uses the connection."""
        self._users = 0
        self.quiet.set()
        self.is_active_directory: bool | None = None
        """Unknown until someone has asked."""
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._turns = asyncio.Semaphore(options.max_in_flight)
        self._queued = 0
        self._descriptor = descriptor
        try:
            self._ldap: Any = ldap.initialize(f"ldap://{transport.url.host}", fileno=descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self._ldap.set_option(ldap.OPT_REFERRALS, ldap.OPT_OFF)
        self._ldap.set_option(ldap.OPT_DEREF, ldap.DEREF_NEVER)
        self._room = WriteRoom(descriptor)
        self._loop.add_reader(descriptor, self._read)
        transport.when_lost(self._ending)

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answer."""
        return len(self._waiting)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the connection from being closed for its age meanwhile."""
        self._users += 1
        self.quiet.clear()
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                self.quiet.set()

    async def bind(self, name: str, password: bytes) -> None:
        """Say who we are; an empty name and password are nobody. Raises LdapFault."""
        # libldap takes text; what is not UTF-8 is not a password that it could send.
        await self._request(lambda: self._ldap.simple_bind(name, password))

    async def search(
        self,
        base: str,
        scope: int,
        text: str,
        attributes: Sequence[str],
        *,
        most: int,
        controls: Sequence[Any] = (),
    ) -> Answer:
        """Search once; `most` is the bound that the server is asked to keep.

        Raises LdapFault; nothing is answered unless the search was answered whole.
        """
        seconds = max(1, round(self._options.operation_timeout))
        self.used = time.monotonic()
        return await self._request(
            lambda: self._ldap.search_ext(
                base,
                scope,
                text,
                list(attributes),
                0,
                serverctrls=list(controls) or None,
                timeout=seconds,
                sizelimit=most,
            )
        )

    async def verify(self) -> None:
        """See whether the server still answers; raises LdapFault, and closes, if not."""
        try:
            await self._request(
                lambda: self._ldap.search_ext(
                    "", ldap.SCOPE_BASE, "(objectClass=*)", ["1.1"], timeout=1, sizelimit=1
                )
            )
        except ServerFault as fault:
            self.close(fault.detail)
            raise
        except LdapFault:
            # It refuses to show its root entry, and so it answers.
            return

    async def _request(self, start: Callable[[], int]) -> Answer:
        if self._turns.locked() and self._queued >= self._options.max_queued:
            raise Overloaded("too many requests wait for the directory")
        message: int | None = None
        heard = self.heard
        self._queued += 1
        is_queued = True
        try:
            async with asyncio.timeout(self._options.operation_timeout), self._turns:
                self._queued -= 1
                is_queued = False
                await self._room.wait()
                heard = self.heard
                message = self._start(start)
                future = self._waiting[message] = self._loop.create_future()
                answer: Answer = await future
                return answer
        except TimeoutError:
            raise self._timed_out(heard, asked=message is not None) from None
        finally:
            self._queued -= is_queued
            if message is not None and self._waiting.pop(message, None) is not None:
                self._abandon(message)

    def _start(self, start: Callable[[], int]) -> int:
        if self.lost is not None:
            raise ServerFault(self.lost)
        try:
            return start()
        except ldap.LDAPError as error:
            fault = result_codes.fault(error)
            if isinstance(error, ldap.SERVER_DOWN | ldap.BUSY):
                self.close(fault.detail)
            raise fault from None
        except (UnicodeEncodeError, TypeError, ValueError):
            raise LdapFault("a value cannot be sent to the directory") from None

    def _timed_out(self, heard: float, *, asked: bool) -> ServerFault:
        seconds = self._options.operation_timeout
        fault = ServerFault(
            f"{self.server} did not answer within {seconds:g} s",
            "check the load of the server and the indexes for the searched attributes",
        )
        if not asked and self.in_flight:
            return fault
        # A server that answers others is slow with this one; one that is silent hangs.
        if self.heard == heard:
            self.close(fault.detail)
        return fault

    def _abandon(self, message: int) -> None:
        if self.lost is None:
            try:
                self._ldap.abandon_ext(message)
            except ldap.LDAPError as error:
                self.close(result_codes.fault(error).detail)

    def _read(self) -> None:
        self.heard = time.monotonic()
        while self.lost is None:
            try:
                kind, entries, message, controls = self._ldap.result3(
                    ldap.RES_ANY,
                    1,
                    timeout=0,
                    resp_ctrl_classes=PagedResults.KNOWN,
                )
            except ldap.LDAPError as error:
                self._failed(error)
                continue
            except Exception as error:
                # Such as a DN that is not UTF-8; whose answer it was in is lost.
                self.close(f"the server sent what cannot be read: {type(error).__name__}")
                return
            if kind is None:
                return
            self._transport.answer_is_complete()
            future = self._waiting.pop(message, None)
            if future is not None and not future.done():
                future.set_result(Answer(entries or [], controls or ()))
            elif not message:
                self.close("the server announced the end of the connection")

    def _failed(self, error: Any) -> None:
        message = result_codes.message_id(error)
        if not message:
            # It is about the connection and not about a request.
            self.close(self._transport.lost or result_codes.fault(error).detail)
            return
        self._transport.answer_is_complete()
        future = self._waiting.pop(message, None)
        if future is not None and not future.done():
            future.set_exception(result_codes.fault(error))

    def _ending(self, reason: str) -> None:
        """The server is gone: what it sent before is on its way through the socket pair."""
        if self.lost is None:
            self._loop.call_later(_LAST_BYTES_SECONDS, self.close, reason)

    def close(self, reason: str = "closed") -> None:
        """End the connection and every request on it."""
        if self.lost is not None:
            return
        self.lost = reason
        self.ended.set()
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(ServerFault(reason))
        self._loop.remove_reader(self._descriptor)
        self._room.close()
        self._ldap = None  # Its end closes the descriptor.
        self._transport.close(reason)
