"""A connection to a directory server, with concurrent requests and timeouts but no threads.

It uses only python-ldap's asynchronous calls, on a nonblocking descriptor. Results are fetched
when the event loop reports data, for up to a few milliseconds at a time.
"""

import asyncio
import os
import select
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import ldap
from ldap.controls import ResponseControl, SimplePagedResultsControl

from queuegate_server.identity.resolvers.ldap.bridge import Bridge
from queuegate_server.identity.resolvers.ldap.ldap_faults import (
    LdapFault,
    ServerFault,
    TooManyRequests,
    UnusableData,
    message_id,
    to_fault,
    unreadable_response,
)
from queuegate_server.identity.resolvers.ldap.ldap_messages import (
    BIND_RESPONSE,
    INTERMEDIATE_RESPONSE,
    SEARCH_DONE,
    SEARCH_ENTRY,
    SEARCH_REFERENCE,
)
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from queuegate_server.identity.resolvers.ldap.pending import (
    Allowance,
    PendingRequests,
    Receiver,
    SearchResult,
)
from queuegate_server.identity.resolvers.ldap.timed_steps import StepObserver
from queuegate_server.runtime.pacing import ANSWERS, STEP_SECONDS

MAX_QUEUED: Final = 1024
"""The maximum number of queued requests on one connection, enough for all lookups that may run at
once, each of which sends a few requests at a time."""
_LAST_BYTES_SECONDS: Final = 0.25
_RESPONSE_CONTROLS: Final = {SimplePagedResultsControl.controlType: SimplePagedResultsControl}


class SearchQuery(NamedTuple):
    """The parameters of a search request."""

    base: str
    filter_text: str
    attributes: Sequence[str]
    scope: int = ldap.SCOPE_SUBTREE


class LdapConnection:
    """A connection to a directory server through libldap."""

    def __init__(
        self, bridge: Bridge, descriptor: int, options: LdapOptions, observe: StepObserver
    ) -> None:
        """Create a connection that owns `descriptor`, the result of `Bridge.hand_over`."""
        self._bridge = bridge
        self.options = options
        self.observe = observe
        self._loop = asyncio.get_running_loop()
        self.server = str(bridge.url)
        self.opened_at = self.heard_at = self.used_at = time.monotonic()
        self.lost: str | None = None
        """Why the connection was closed; None while it is open."""
        self.ended = asyncio.Event()
        self.quiet = asyncio.Event()
        """An event that is set while no lookup uses the connection."""
        self.quiet.set()
        self.users = 0
        """The number of lookups using the connection."""
        self.long_work = asyncio.Lock()
        """The lock held by a lookup while it processes a long result."""
        self.is_active_directory: bool | None = None
        """Whether the server is Active Directory; None until determined."""
        self.schema_lock = asyncio.Lock()
        self.known_attributes: frozenset[str] | None = None
        """The attributes in the server's schema; None until read, empty if unreadable."""
        self._response_controls = _RESPONSE_CONTROLS
        """The controls of results to decode, by type."""
        self._secret = ""
        """The password during the bind, because a server's error might repeat it."""
        self._pending = PendingRequests(self._abandon, self.close, self._hear)
        self._slots = asyncio.Semaphore(options.max_in_flight)
        self._max_requests = options.max_in_flight + MAX_QUEUED
        self._requests = 0
        """The number of requests in flight or waiting for a slot."""
        self._descriptor = descriptor
        try:
            self._ldap: Any = ldap.initialize(f"ldap://{bridge.url.host}", fileno=descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self._ldap.set_option(ldap.OPT_REFERRALS, ldap.OPT_OFF)
        self._ldap.set_option(ldap.OPT_DEREF, ldap.DEREF_NEVER)
        self._writable = _WritableDescriptor(descriptor)
        self._loop.add_reader(descriptor, self._read)
        bridge.on_lost = self._close_soon
        bridge.receiver = self._pending

    @property
    def in_flight(self) -> int:
        """The number of requests in flight."""
        return len(self._pending)

    async def bind(self, name: str, password: bytes) -> None:
        """Perform a simple bind (anonymous if both arguments are empty). Raises LdapFault."""
        if password and not (self._bridge.encrypted or self.options.allow_plaintext_bind):
            raise LdapFault("the password would be sent without encryption")
        self._secret = password.decode(errors="replace")
        try:
            # The password is sent as bytes because it might not be valid UTF-8.
            await self._request(
                lambda: self._ldap.simple_bind(name, password), Allowance(0), (BIND_RESPONSE,)
            )
        finally:
            self._secret = ""

    async def search(
        self,
        query: SearchQuery,
        *,
        size_limit: int,
        allowance: Allowance,
        controls: Sequence[Any] = (),
    ) -> SearchResult:
        """Send one search request and return its complete result. Raises LdapFault.

        `size_limit` is only sent to the server (0 means no limit). `allowance` is enforced here.
        """
        seconds = max(1, round(self.options.operation_timeout))
        self.used_at = time.monotonic()
        return await self._request(
            lambda: self._ldap.search_ext(
                query.base,
                query.scope,
                query.filter_text,
                list(query.attributes),
                serverctrls=list(controls) or None,
                timeout=seconds,
                sizelimit=size_limit,
            ),
            allowance,
        )

    async def follow(
        self,
        query: SearchQuery,
        control: Any,
        allowance: Allowance,
        receiver: Receiver,
    ) -> SearchResult:
        """Send a search that may never end; return its final result. Raises LdapFault.

        Args:
            query: The search.
            control: The control that makes the server report changes.
            allowance: The limits of each message.
            receiver: Receives the entries and intermediate responses.
        """
        self._response_controls = dict.fromkeys(receiver.controls, ResponseControl)
        message: int | None = None
        try:
            async with asyncio.timeout(self.options.operation_timeout):
                await self._writable.wait()
            message = self._start(
                lambda: self._ldap.search_ext(
                    query.base,
                    query.scope,
                    query.filter_text,
                    list(query.attributes),
                    serverctrls=[control],
                )
            )
            operations = (SEARCH_ENTRY, SEARCH_REFERENCE, INTERMEDIATE_RESPONSE, SEARCH_DONE)
            return await self._pending.add(message, operations, allowance, receiver)
        except TimeoutError:
            raise self._timed_out(self.heard_at, sent=False) from None
        finally:
            if message is not None:
                self._pending.abandon(message)

    @property
    def is_receiving_change(self) -> bool:
        """Whether a change has started to arrive but has not been handled yet."""
        return self._pending.is_receiving

    async def verify(self) -> bool:
        """Check that the server responds; if not, close the connection and raise ServerFault.

        Returns False if it is not known whether the server responds, because the response waits
        behind changes, or too many requests were in progress.
        """
        followed = self._pending.followed
        try:
            await self._request(
                lambda: self._ldap.search_ext(
                    "", ldap.SCOPE_BASE, "(objectClass=*)", ["1.1"], timeout=1, sizelimit=1
                ),
                Allowance(1),
            )
        except ServerFault as fault:
            if self.lost is not None or self._pending.followed == followed:
                self.close(fault.detail)
                raise
            return False  # The changes before the response show that the server works.
        except TooManyRequests:
            return False
        except LdapFault:
            return True  # The server refused the request, but it responds.
        return True

    async def _request(
        self,
        start: Callable[[], int],
        allowance: Allowance,
        operations: tuple[int, ...] = (SEARCH_ENTRY, SEARCH_REFERENCE, SEARCH_DONE),
    ) -> SearchResult:
        options = self.options
        if self._requests >= self._max_requests:
            raise TooManyRequests(
                "too many requests are waiting for the directory: max_in_flight "
                f"({options.max_in_flight}) are in progress, and {MAX_QUEUED} more wait",
                "find out why the directory is slow",
            )
        message: int | None = None
        heard_at = self.heard_at
        self._requests += 1
        try:
            async with asyncio.timeout(options.operation_timeout), self._slots:
                await self._writable.wait()
                heard_at = self.heard_at
                message = self._start(start)
                return await self._pending.add(message, operations, allowance)
        except TimeoutError:
            raise self._timed_out(heard_at, sent=message is not None) from None
        finally:
            self._requests -= 1
            if message is not None:
                self._pending.abandon(message)

    def _start(self, start: Callable[[], int]) -> int:
        if self.lost is not None:
            raise ServerFault(self.lost)
        try:
            return start()
        except ldap.LDAPError as error:
            fault = to_fault(error, self._secret)
            if isinstance(error, ldap.SERVER_DOWN | ldap.BUSY):
                self.close(fault.detail)
            raise fault from None
        except (UnicodeEncodeError, TypeError, ValueError):
            raise UnusableData("a value cannot be sent to the directory") from None

    def _timed_out(self, heard_at: float, *, sent: bool) -> ServerFault:
        seconds = self.options.operation_timeout
        fault = ServerFault(
            f"{self.server} did not answer within {seconds:g} s (operation_timeout)",
            "check the server's load and the indexes for the searched attributes",
        )
        if not sent and self.in_flight:
            return fault
        # A server that responds to other requests is merely slow; a silent server seems to hang.
        if self.heard_at == heard_at:
            self.close(fault.detail)
        return fault

    def _abandon(self, message: int) -> None:
        if self.lost is None:
            try:
                self._ldap.abandon_ext(message)
            except ldap.LDAPError as error:
                self.close(to_fault(error, self._secret).detail)

    def _hear(self) -> None:
        self.heard_at = time.monotonic()

    def _read(self) -> None:
        """Fetch results from libldap in short steps with pauses between them."""
        start = time.monotonic()
        while self.lost is None and self._read_one():
            if (worked := time.monotonic() - start) > STEP_SECONDS:
                self._loop.remove_reader(self._descriptor)
                self._loop.call_later(ANSWERS.wait(worked), self._resume_reading)
                return
        ANSWERS.wait(time.monotonic() - start)

    def _resume_reading(self) -> None:
        # Read now, because libldap may have buffered all data; no event would then trigger a read.
        if self.lost is None:
            self._loop.add_reader(self._descriptor, self._read)
            self._read()

    def _read_one(self) -> bool:
        """Fetch one entry, reference or result; return whether there was one."""
        try:
            kind, entries, message, controls = self._next_result()
        except ldap.LDAPError as error:
            if message := message_id(error):
                self._pending.settle(message, to_fault(error, self._secret))
            else:
                # An error without a message id affects the whole connection.
                self.close(self._bridge.lost or to_fault(error, self._secret).detail)
            return True
        except Exception as error:
            # The error (such as invalid UTF-8 in a DN) does not show which request is affected.
            self.close(unreadable_response(error).detail)
            return True
        if kind is None:
            return False
        if not message:
            self.close("the server sent a notice of disconnection")
        elif kind == ldap.RES_SEARCH_ENTRY:
            self._pending.add_entries(message, entries)
        elif kind != ldap.RES_SEARCH_REFERENCE:
            self._pending.settle(message, controls or ())
        return True

    def _next_result(self) -> tuple[int | None, Any, int, Any]:
        """Return the type, data, message id and controls of the next message, if there is one."""
        result: tuple[int | None, Any, int, Any] = self._ldap.result3(
            ldap.RES_ANY, 0, timeout=0, resp_ctrl_classes=self._response_controls
        )
        return result

    def _close_soon(self, reason: str) -> None:
        """Close the connection after giving libldap time to read the last data."""
        if self.lost is None:
            self._loop.call_later(_LAST_BYTES_SECONDS, self.close, reason)

    def close(self, reason: str = "closed") -> None:
        """Close the connection and fail all of its requests."""
        if self.lost is not None:
            return
        self.lost = reason
        self.ended.set()
        self._pending.fail_all(reason)
        self._loop.remove_reader(self._descriptor)
        self._writable.close()
        self._ldap = None  # The destructor closes the descriptor.
        self._bridge.abort(reason)


class _WritableDescriptor:
    """Waits until at least three quarters of a Unix socket's send buffer is free.

    Any request then fits. This is necessary because libldap cannot resume a partial send.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._changed = asyncio.Event()
        self._closed = False

    async def wait(self) -> None:
        """Wait until enough space is free or `close` is called."""
        while not self._closed and not self._poll.poll(0):
            self._changed.clear()
            self._loop.add_writer(self._descriptor, self._wake)
            await self._changed.wait()

    def close(self) -> None:
        """Wake all waiters. The descriptor must still be open."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        self._loop.remove_writer(self._descriptor)
        self._changed.set()
