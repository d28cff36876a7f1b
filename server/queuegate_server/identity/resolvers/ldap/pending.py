"""Requests in flight on a connection, and checks of the server's responses.

A response of the wrong type, a duplicate response, or a response without a request closes the
connection and fails all of its requests. An oversized response fails only its own request, so that
one oversized entry does not block other lookups. The directory is trusted for group memberships,
but not to limit its use of this server's memory and time.

Entries that report changes may be as large as a group with hundreds of thousands of members, which
the driver would decode in one step. Therefore, they are decoded here, and never reach the driver.
"""

import asyncio
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from queuegate_server.identity.resolvers.ldap.entries import MAX_DN_BYTES, long_dn
from queuegate_server.identity.resolvers.ldap.followed_messages import (
    FollowedMessage,
    decode_message,
)
from queuegate_server.identity.resolvers.ldap.ldap_faults import (
    LdapFault,
    ServerFault,
    TooManyEntries,
    UnusableData,
)
from queuegate_server.identity.resolvers.ldap.ldap_messages import (
    BIND_RESPONSE,
    EXTENDED_RESPONSE,
    INTERMEDIATE_RESPONSE,
    MAX_CONTROL_MESSAGE_BYTES,
    SEARCH_DONE,
    SEARCH_ENTRY,
    SEARCH_REFERENCE,
    MessageHead,
    TooManyElements,
    check_message,
    dn_bytes,
)

_MAX_HELD_BYTES: Final = 64 * 2**20
"""The maximum total size of incomplete responses to lookups."""
_ELEMENT_BYTES: Final = 64
"""The memory overhead of a value in Python, in bytes."""
_MAX_LATE: Final = 1024
"""The maximum number of abandoned requests tracked so that their late responses are recognized."""
_MAX_DROPPED: Final = 10_000
"""The maximum number of late messages on one connection."""
_FINAL: Final = (SEARCH_DONE, BIND_RESPONSE)
_RECEIVED: Final = (SEARCH_ENTRY, INTERMEDIATE_RESPONSE)
"""The types of messages that a `Receiver` handles."""
_BASE_BYTES: Final = 2**20
_ENTRY_BYTES: Final = 512
_BASE_ELEMENTS: Final = 4096
_ENTRY_ELEMENTS: Final = 4
"""The elements allowed per entry: the entry, its name attribute with a value, and one spare."""
MAX_LOOKUP_BYTES: Final = 16 * 2**20
MAX_LISTING_BYTES: Final = 64 * 2**20
"""The maximum size of responses when listing members or users. Higher than for lookups, because no
check waits for a listing."""
_MAX_VALUES: Final = 100_000
"""The number of typical values that fit into an entry that reports a change."""


class Allowance:
    """The number of bytes and elements (see `check_message`) that responses may still contain.

    Args:
        entries: The number of entries or values of typical size to allow.
        advice: Advice for the fault raised when the allowance is exceeded.
        is_for_listing: Whether the requests list members or users.
    """

    __slots__ = (
        "_advice",
        "_bytes_left",
        "_entries",
        "elements_left",
        "is_for_listing",
        "max_bytes",
    )

    def __init__(self, entries: int, advice: str = "", *, is_for_listing: bool = False) -> None:
        most = MAX_LISTING_BYTES if is_for_listing else MAX_LOOKUP_BYTES
        self.max_bytes = min(_BASE_BYTES + _ENTRY_BYTES * entries, most)
        self._entries = entries
        self._advice = advice
        self._bytes_left = self.max_bytes
        self.elements_left = _BASE_ELEMENTS + _ENTRY_ELEMENTS * entries
        self.is_for_listing = is_for_listing

    def renewed(self) -> "Allowance":
        """Return an equal allowance, of which nothing has been used."""
        return Allowance(self._entries, self._advice, is_for_listing=self.is_for_listing)

    def charge(self, size: int, elements: int) -> None:
        """Deduct bytes and elements. Raises UnusableData if the allowance is exceeded."""
        self._bytes_left -= size
        self.elements_left -= elements
        if self._bytes_left < 0:
            raise UnusableData(
                f"the directory sent more than {self.max_bytes / 2**20:.1f} MiB for one request",
                self._advice,
            )
        if self.elements_left < 0:
            raise UnusableData(
                "the directory sent too many entries, attributes and values for one request",
                self._advice,
            )


def entry_allowance() -> Allowance:
    """Return the allowance for one entry of a search for changes."""
    return Allowance(_MAX_VALUES, "split the group", is_for_listing=True)


class Receiver(NamedTuple):
    """Receives the messages of a search that may never end. They bypass the driver."""

    receive: Callable[[FollowedMessage], Iterator[None]]
    """Handles an entry or an intermediate response. Yields where a step may end; may raise
    LdapFault, which ends the search."""
    controls: Collection[str]
    """The types of the response controls to decode."""
    hear: Callable[[], None] = lambda: None
    """Called whenever a message starts to arrive, and while a long one is being handled."""
    expect: Callable[[int], None] = lambda _: None
    """Called with the size of a message in bytes before it is read; may raise LdapFault, which ends
    the search."""


class SearchResult(NamedTuple):
    """A request's complete result."""

    entries: list[tuple[str, Any]]
    """Pairs of a DN and its attributes. References to other servers are omitted."""
    controls: Sequence[Any]


@dataclass(slots=True, eq=False)
class _Request:
    """A request in flight and the part of its response received so far."""

    operations: tuple[int, ...]
    """The message types allowed in the response."""
    allowance: Allowance
    future: asyncio.Future[SearchResult]
    entries: list[tuple[str, Any]] = field(default_factory=list)
    held: int = 0
    """The approximate memory used by the response, in bytes."""
    is_complete: bool = False
    """Whether the response's final message has arrived."""
    receiver: Receiver | None = None
    """Receives each message of a search that may never end; None if the response is collected."""


@dataclass(eq=False)
class PendingRequests:
    """The requests in flight on a connection."""

    notify: Callable[[int], None]
    """Notifies the server of an abandoned request."""
    close: Callable[[str], None]
    """Closes the connection, given the reason."""
    hear: Callable[[], None]
    """Called whenever a message starts to arrive, including messages that are then discarded, and
    while a long one is being handled."""
    is_receiving: bool = field(default=False, init=False)
    """Whether a message for a `Receiver` has started to arrive but has not been handled yet."""
    followed: int = field(default=0, init=False)
    """The number of messages for a `Receiver` that have started to arrive, plus the number of steps
    that handled them."""

    def __post_init__(self) -> None:
        self._pending: dict[int, _Request] = {}
        self._late: dict[int, _Request] = {}
        """Abandoned requests by message id. Their late responses are discarded."""
        self._held = 0
        self._dropped = Allowance(_MAX_DROPPED)

    def __len__(self) -> int:
        return len(self._pending)

    def add(
        self,
        message: int,
        operations: tuple[int, ...],
        allowance: Allowance,
        receiver: Receiver | None = None,
    ) -> asyncio.Future[SearchResult]:
        """Add a request that was just sent; return a future for its result.

        With `receiver`, entries and intermediate responses are passed to it instead of being added
        to the result, and the allowance applies to each message.
        """
        future = asyncio.get_running_loop().create_future()
        self._pending[message] = _Request(operations, allowance, future, receiver=receiver)
        return future

    def abandon(self, message: int) -> None:
        """Abandon a request and notify the server, unless the request has been settled."""
        request = self._pending.pop(message, None)
        if request is None:
            return
        self._held -= request.held
        request.entries = []
        if not request.is_complete:
            self._late[message] = request
            if len(self._late) > _MAX_LATE:
                del self._late[next(iter(self._late))]
        self.notify(message)

    def fail_all(self, reason: str) -> None:
        """Fail all requests because the connection was closed."""
        pending, self._pending = self._pending, {}
        for request in pending.values():
            if not request.future.done():
                request.future.set_exception(ServerFault(reason))

    def add_entries(self, message: int, entries: list[tuple[str, Any]]) -> None:
        """Add entries to a request's result."""
        request = self._pending.get(message)
        if request is not None:
            request.entries += entries

    def settle(self, message: int, result: Sequence[Any] | LdapFault) -> None:
        """Set a request's result to its entries and the final message's controls, or to a fault."""
        request = self._pending.pop(message, None)
        if request is None:
            return
        self._held -= request.held
        if request.future.done():
            return
        if isinstance(result, TooManyEntries):
            result.received = len(request.entries)
        if isinstance(result, LdapFault):
            request.future.set_exception(result)
        else:
            request.future.set_result(SearchResult(request.entries, result))

    def admit(self, head: MessageHead) -> bool:
        """Return whether to read the rest of a message, given its head. Raises ServerFault."""
        self.hear()
        is_notice = head.id == 0 and head.operation == EXTENDED_RESPONSE
        request = self._pending.get(head.id) or self._late.get(head.id)
        if not is_notice and (request is None or request.is_complete):
            raise ServerFault("the server sent a response to an unknown or completed request")
        if request is not None and head.operation not in request.operations:
            raise ServerFault("the server sent a different type of response than requested")
        is_long = head.operation != SEARCH_ENTRY and head.size > MAX_CONTROL_MESSAGE_BYTES
        if is_long and head.operation != SEARCH_REFERENCE:
            raise ServerFault("the server sent a result with more than 64 KiB of text")
        if head.id in self._late:
            self._drop(head)
            return False
        # Charge the allowance before the rest of the message arrives, so that an oversized message
        # is never buffered.
        self.is_receiving = False
        if request is not None and request.receiver is not None:
            self.is_receiving = head.operation in _RECEIVED
            self._hear_followed(request.receiver)
            request.allowance = request.allowance.renewed()
            if self.is_receiving and not self._expect(head, request.receiver):
                return False
        is_admitted = request is None or self._charge(head.id, request.allowance, head.size, 0)
        # Anyone who may create entries may create a long reference. It is ignored like any other.
        return is_admitted and not is_long

    def take(self, head: MessageHead, message: bytes) -> Generator[None, None, bool]:
        """Check a message; return whether to forward it to libldap. Yields where a step may end.

        Raises ServerFault.
        """
        request = self._pending.get(head.id)
        if request is None:
            if head.id:
                # The request was abandoned while this message was arriving.
                self._drop(head)
            else:
                yield from check_message(message, MAX_CONTROL_MESSAGE_BYTES)
            return not head.id
        elements, fault = 0, None
        try:
            elements = yield from check_message(message, request.allowance.elements_left)
        except TooManyElements:
            elements = request.allowance.elements_left + 1
        except UnusableData as error:
            fault = error
        if self._pending.get(head.id) is not request:
            self._drop(head)  # The request was abandoned while this message was being checked.
            return False
        if fault is not None:
            self._fail(head.id, fault)
            return False
        if not self._accept(head, message, request, elements):
            return False
        if request.receiver and head.operation in _RECEIVED:
            yield from self._deliver(head.id, request, request.receiver, message)
            return False
        request.is_complete = head.operation in _FINAL
        return True

    def _accept(self, head: MessageHead, message: bytes, request: _Request, elements: int) -> bool:
        """Charge a checked message. If it exceeds a limit, fail the request and return False."""
        if not self._charge(head.id, request.allowance, 0, elements):
            return False
        if head.operation == SEARCH_ENTRY and (size := dn_bytes(message)) > MAX_DN_BYTES:
            self._fail(head.id, long_dn(size))
            return False
        return self._hold(head.id, request, head.size + _ELEMENT_BYTES * elements)

    def _deliver(
        self, number: int, request: _Request, receiver: Receiver, message: bytes
    ) -> Iterator[None]:
        """Decode a message and pass it on, unless the request is abandoned meanwhile."""
        work = _receive(receiver, message)
        try:
            for _ in work:
                self.hear()
                self._hear_followed(receiver)
                yield
                if self._pending.get(number) is not request:
                    return
            self.is_receiving = False
        except LdapFault as fault:
            self._fail(number, fault)

    def _expect(self, head: MessageHead, receiver: Receiver) -> bool:
        """Announce a message. If the receiver refuses it, fail the request and return False."""
        try:
            receiver.expect(head.size)
        except LdapFault as fault:
            self._fail(head.id, fault)
            return False
        return True

    def _hear_followed(self, receiver: Receiver) -> None:
        self.followed += 1
        receiver.hear()

    def _charge(self, message: int, allowance: Allowance, size: int, elements: int) -> bool:
        """Charge a request's allowance. If it is exceeded, fail the request and return False."""
        try:
            allowance.charge(size, elements)
        except UnusableData as fault:
            self._fail(message, fault)
            return False
        return True

    def _hold(self, message: int, request: _Request, size: int) -> bool:
        """Count a response's memory. If it exceeds the limit, fail the request and return False."""
        if request.allowance.is_for_listing:
            return True
        request.held += size
        self._held += size
        if self._held > _MAX_HELD_BYTES:
            self._fail(message, ServerFault("incomplete responses take more than 64 MiB"))
            return False
        return True

    def _fail(self, message: int, fault: LdapFault) -> None:
        """Fail one request without affecting others on the connection."""
        request = self._pending[message]
        self.abandon(message)
        if not request.future.done():
            request.future.set_exception(fault)

    def _drop(self, head: MessageHead) -> None:
        """Count a discarded late message. Raises ServerFault if there have been too many."""
        try:
            self._dropped.charge(head.size, 1)
        except UnusableData:
            raise ServerFault("the server keeps answering abandoned requests") from None
        if head.operation in _FINAL:
            self._late.pop(head.id, None)


def _receive(receiver: Receiver, message: bytes) -> Iterator[None]:
    decoded = yield from decode_message(message, receiver.controls)
    yield from receiver.receive(decoded)
