"""Errors of failed requests to an identity provider. Messages contain no secrets."""

from collections.abc import Iterable
from typing import Final

from queuegate_server.identity.secret_masking import mask
from queuegate_server.identity.source_fault import SourceFault

_MAX_CHARS: Final = 200


class RequestFault(SourceFault):
    """A request failed, so the lookup that needs it fails."""


class UnusableAnswer(RequestFault):
    """The provider's data about a user must not be used. Other users are not affected.

    Every fault that depends on users and groups is of this class. Otherwise, anyone who may edit
    some of them could open the circuit breaker.
    """


class RejectedCredentials(RequestFault):
    """The provider rejected the client's credentials. Retrying may lock the client."""


class Throttled(RequestFault):
    """The provider asked for a pause, which has not ended yet."""


class Gone(RequestFault):
    """The provider no longer knows the position up to which changes have been read."""


class BadRequest(RequestFault):
    """The API says that the request is not valid."""


class NotFound(RequestFault):
    """The API, rather than a proxy in front of it, says that the object does not exist."""

    def __init__(self, detail: str, reason: str) -> None:
        super().__init__(detail)
        self.reason = reason
        """The API's code for the reason, or if it has none, its text; possibly empty."""


def for_message(text: object, secrets: Iterable[str] = ()) -> str:
    """Return the beginning of a string from the provider, for use in a message; "" if it is not
    printable. Secrets that the text repeats in any common encoding are masked.
    """
    if not isinstance(text, str) or not text.isprintable():
        return ""
    return mask(text, secrets)[:_MAX_CHARS]
