"""The names by which callers know users of a realm: usernames, emails, or values of an attribute.

Keycloak stores an attribute as a list of values, each of which is a name of the user. It does not
require values to be unique, and users may edit attributes unless the realm's user profile forbids
it.
"""

from collections.abc import Mapping
from typing import Any, Final

from queuegate_server.identity.resolver import NoSuchUser
from queuegate_server.identity.resolvers.keycloak.keycloak_options import KeycloakOptions
from queuegate_server.identity.rest.answer_limits import MAX_SIMILAR_USERS
from queuegate_server.identity.rest.faults import RequestFault, UnusableAnswer
from queuegate_server.identity.rest.provider_names import is_same, listed_name

UNSEARCHABLE: Final = NoSuchUser(
    "Keycloak cannot search for names with quotes or backslashes", source_asked=False
)
_UNSEARCHABLE_CHARS: Final = frozenset('"\\')
"""In quoted values, Keycloak drops some backslashes."""
_UNMANAGED: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "ENABLED": {"edit": ("admin", "user")},
    "ADMIN_EDIT": {"edit": ("admin",)},
    "ADMIN_VIEW": {"view": ("admin",)},
}
"""Who may edit and view an attribute that the user profile does not declare, by the profile's
policy.
"""


class UserNames:
    """The names of users, as the settings define them."""

    def __init__(self, options: KeycloakOptions) -> None:
        self._options = options
        self._attribute = options.user_attribute
        self._field = options.user_attribute or options.user_name
        self.representation: Mapping[str, str] = {
            "briefRepresentation": "true" if self._attribute is None else "false"
        }
        """The parameter of requests for users that makes Keycloak include the names."""

    def is_searchable(self, name: str) -> bool:
        """Return whether Keycloak can search for a name."""
        return self._attribute is None or not _UNSEARCHABLE_CHARS.intersection(name)

    def query(self, name: str) -> Mapping[str, str]:
        """Return the parameters of a search for a name, which finds it in any case."""
        if self._attribute is None:
            asked = {self._field: name, "max": "3"}
        else:
            asked = {"q": f'{self._attribute}:"{name}"', "max": str(MAX_SIMILAR_USERS)}
        return {**asked, "exact": "true", **self.representation}

    def with_name(self, users: list[dict[str, Any]], name: str) -> Mapping[str, Any] | None:
        """Return the user with a name, from among the users that a search found. Raises
        RequestFault.
        """
        same = [user for user in users if self._has(user, name)]
        if len(same) > 1 or len(users) >= MAX_SIMILAR_USERS:
            raise UnusableAnswer(
                f"several users have this {self._field}", "make it unique in the realm"
            )
        return same[0] if same else None

    def listed(self, user: Mapping[str, Any]) -> list[str]:
        """Return the names by which callers know a user."""
        known = (listed_name(name, self._options) for name in self._names(user))
        return [name for name in known if name is not None]

    def check_profile(self, profile: object) -> None:
        """Raise RequestFault unless attributes are shown, and only administrators may edit them.

        Args:
            profile: The realm's user profile, as the API returns it.
        """
        given = profile if isinstance(profile, dict) else {}
        roles = _UNMANAGED.get(str(given.get("unmanagedAttributePolicy")), {})
        declared = given.get("attributes")
        for each in declared if isinstance(declared, list) else ():
            if isinstance(each, dict) and each.get("name") == self._attribute:
                permissions = each.get("permissions")
                roles = permissions if isinstance(permissions, dict) else {}
        editors, viewers = (roles.get(key) or () for key in ("edit", "view"))
        if "user" in editors:
            raise RequestFault(
                f"users may edit their own {self._attribute}, and so take another user's name",
                "let only administrators edit it, in Realm settings, User profile",
            )
        if "admin" not in editors and "admin" not in viewers:
            raise RequestFault(
                f"Keycloak does not show the user attribute {self._attribute}",
                "declare it in Realm settings, User profile, and let administrators view it",
            )

    def of(self, user: Mapping[str, Any]) -> str:
        """Return the first name of a user, or "" if the user has none."""
        return next(iter(self._names(user)), "")

    def _has(self, user: Mapping[str, Any], name: str) -> bool:
        names = self._names(user)
        if not names:
            raise RequestFault(f"user: Keycloak does not show the {self._field} of a user")
        return any(is_same(each, name, self._options) for each in names)

    def _names(self, user: Mapping[str, Any]) -> list[str]:
        """Return the names of a user, in Keycloak's spelling."""
        found: Any = [user.get(self._field)]
        if self._attribute is not None:
            attributes = user.get("attributes")
            found = attributes.get(self._attribute) if isinstance(attributes, dict) else None
        texts = (each for each in found or () if isinstance(each, str) and each)
        return [each for each in texts if self.is_searchable(each)]
