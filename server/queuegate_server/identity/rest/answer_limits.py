"""Limits on the answers of an identity provider. The `max_groups` setting is another. An answer
beyond a limit is a fault and is never shortened; too many changes count as affecting all users.
"""

from typing import Final

MAX_BODY_BYTES: Final = 2 * 1024 * 1024
MAX_SMALL_BODY_BYTES: Final = 64 * 1024
"""The maximum size of a token's or an error's body."""
MAX_OVERHEAD_BYTES: Final = 32 * 1024
"""The maximum size of an answer apart from its body: headers, informational answers, and the
framing of chunks. The framing may take more in proportion to the body; see FRAMING_SHARE."""
FRAMING_SHARE: Final = 8
"""The body must be at least this many times larger than its additional framing, as it is with
chunks of 60 bytes."""
MAX_INFORMATIONAL: Final = 16
"""The maximum number of informational answers before an answer."""
MAX_VALUES: Final = 50_000
"""The maximum number of JSON values in a body. Decoding blocks the event loop for a time that
depends more on the number of values than on the number of bytes.
"""
MAX_NAME_CHARS: Final = 1024
"""The maximum length of a name or an id."""
MAX_PAGES: Final = 2000
"""The maximum number of pages that link to each other."""
MAX_SIMILAR_GROUPS: Final = 1000
"""The maximum number of Keycloak groups whose names contain the searched name."""
MAX_SIMILAR_USERS: Final = 100
"""The maximum number of Keycloak users whose attributes differ only in case."""

MAX_AFFECTED: Final = 100
"""If an answer affects more users, it counts as affecting all users."""
MAX_DELTA_PAGES: Final = 100
"""If Microsoft Graph has more pages of changes, they count as affecting all users."""
MAX_LOG_PAGES: Final = 10
"""If Okta has more pages of new events, they count as affecting all users, and the remaining pages
are read next.
"""
MAX_EVENT_PAGES: Final = 10
"""The maximum number of pages of Keycloak's events to read. If all of their events are new, they
count as affecting all users."""
