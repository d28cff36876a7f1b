"""Requests to a directory that have been given up."""

from queuegate_server.identity.resolvers.ldap.ldap_messages import SEARCH_DONE, SEARCH_ENTRY
from queuegate_server.identity.resolvers.ldap.pending import Allowance, PendingRequests


class _Attributes(dict[str, list[bytes]]):
    """Attributes that say when they are gone."""

    gone = 0

    def __del__(self) -> None:
        _Attributes.gone += 1


async def test_an_answer_that_nobody_waits_for_is_not_kept() -> None:
    requests = PendingRequests(lambda _: None, lambda _: None, lambda: None)
    for message in range(3):
        requests.add(message, (SEARCH_ENTRY, SEARCH_DONE), Allowance(1))
        requests.add_entries(message, [("cn=a", _Attributes())])
        # The server has sent entries, and never the end of the result.
        requests.abandon(message)
    assert _Attributes.gone == 3
