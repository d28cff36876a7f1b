"""The console's pages, in navigation order."""

from typing import Final

from queuegate_server.console.pages import access, change, denials, health, queues, user
from queuegate_server.console.views import Page

PAGES: Final[tuple[Page, ...]] = (
    queues.PAGE,
    access.PAGE,
    user.PAGE,
    change.PAGE,
    health.PAGE,
    denials.PAGE,
)
