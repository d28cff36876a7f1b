"""Settings of the HTTP port: its addresses, and the names that its callers use."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import Field

from queuegate_server.config_fields import Section, check_with
from queuegate_server.settings.listeners import ListenerList

QUEUE: Final = "queue"
APPLICATION: Final = "application"
_MAX_NAME: Final = 256


def _check_url(text: str) -> None:
    parts = urlsplit(text)
    is_plain = not (parts.query or parts.fragment or parts.username or "@" in parts.netloc)
    if parts.scheme != "https" or not parts.hostname or not is_plain or text.endswith("/"):
        raise ValueError(
            "is not the URL of a decision point: write https://host or https://host/path, without"
            " a final slash, query, fragment or user"
        )


def _check_name(name: str) -> None:
    if name in {QUEUE, APPLICATION, "submit", "admin"}:
        raise ValueError(f"{name} has a meaning of its own: choose another name")


_Name = Annotated[str, Field(min_length=1, max_length=_MAX_NAME), check_with(_check_name)]


class Http(Section):
    """Decisions as JSON over HTTP, as in the OpenID Foundation's Authorization API 1.0
    (AuthZEN).
    """

    listen: ListenerList = ()
    """The addresses to listen on, with the same keys as `listen`. Default: none."""
    public_url: Annotated[str, check_with(_check_url)] | None = None
    """The URL by which callers reach the port through a proxy, as stated in the metadata document.
    Default: the host of the request.
    """
    types: Mapping[_Name, Annotated[str, Field(pattern=r"^root(\.[^.]+)*$")]] = Field(
        default_factory=dict
    )
    """Additional resource types, each with a queue: an ID is the path of a queue below it. With
    `project: root.projects`, the project `a` is the queue `root.projects.a`."""
    actions: Mapping[_Name, Literal["submit", "admin"]] = Field(default_factory=dict)
    """Additional names for the actions on queues, such as `can_submit: submit`."""
