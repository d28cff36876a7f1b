"""The `queuegate` and `grpcurl` commands equivalent to a request on a page."""

import json
import shlex
from collections.abc import Sequence
from typing import Final, NamedTuple

from queuegate.policy.decision import Access
from queuegate.policy.names import DEFAULT_PARTITION
from queuegate_server.console.views import Visit
from queuegate_server.settings.listeners import parse_address

_METHOD: Final = "queuegate.v1.AccessService/ExplainQueueAccess"
_ANYWHERE: Final = "SERVER"
"""The host placeholder for a server that listens on all interfaces."""


class AccessQuery(NamedTuple):
    """A request for a decision, as entered on a page."""

    user: str
    queue: str
    access: Access
    partition: str
    groups: Sequence[str] | None
    """The user's groups: None to look them up, empty for a user without groups."""
    real_user: str


def command_line(visit: Visit, asked: AccessQuery) -> str:
    """Return the `queuegate` command that explains the decision."""
    words = ["queuegate", "--address", _address(visit)]
    if _has_tls(visit):
        words += ["--tls-ca", "CA.pem"]
    if visit.principal.has_token:
        words += ["--token-file", "TOKEN_FILE"]
    words.append("explain")
    is_like_option = asked.user.startswith("-")
    if not is_like_option:
        words += [asked.user, asked.queue]
    if asked.access is not Access.SUBMIT:
        words += ["--access", str(asked.access)]
    if asked.partition != DEFAULT_PARTITION:
        words += ["--partition", asked.partition]
    for group in asked.groups or ():
        words += ["--group", group]
    if asked.groups == ():
        words.append("--no-groups")
    if asked.real_user:
        words += ["--real-user", asked.real_user]
    if is_like_option:
        words += ["--", asked.user, asked.queue]
    return shlex.join(words)


def grpcurl(visit: Visit, asked: AccessQuery) -> str:
    """Return the `grpcurl` command that explains the decision."""
    user: dict[str, object] = {"user": asked.user}
    if asked.groups:
        user["groups"] = [*asked.groups]
    elif asked.groups is not None:
        user["no_groups"] = True
    request = {
        "user": user,
        "partition": asked.partition,
        "queue": asked.queue,
        "access": f"ACCESS_TYPE_{asked.access.upper()}",
    }
    if asked.real_user:
        request["real_user"] = asked.real_user
    words = ["grpcurl", *(("-cacert", "CA.pem") if _has_tls(visit) else ("-plaintext",))]
    if visit.principal.has_token:
        words += ["-H", "authorization: Bearer TOKEN"]
    return shlex.join([*words, "-d", json.dumps(request), _address(visit), _METHOD])


def _address(visit: Visit) -> str:
    text = next(iter(visit.services.addresses), f"{_ANYWHERE}:50051")
    address = parse_address(text)
    return f"{_ANYWHERE}:{address.port}" if address.is_wildcard else text


def _has_tls(visit: Visit) -> bool:
    return visit.services.settings.listen[0].tls is not None
