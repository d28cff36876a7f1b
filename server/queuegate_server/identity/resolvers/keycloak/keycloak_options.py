"""Settings for the `keycloak` resolver."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from queuegate_server.identity.rest.provider_options import (
    Address,
    RestOptions,
    SecretFile,
    check_user_attribute,
    in_form,
    parse_address,
    problem,
)


def _check_url(text: str) -> str:
    parts = parse_address(text).raw_path.split("/")
    if "realms" in parts or parts[-1] == "admin":
        raise ValueError(
            "is the address of a realm or of the admin console: use the address of Keycloak itself"
        )
    return text


_REALM: Final = r"^[^\s/?#%\\.][^\s/?#%\\]*$"
_ATTRIBUTE: Final = r"^[A-Za-z0-9._-]+$"
"""The names that Keycloak accepts."""
AttributeName = Annotated[
    str,
    Field(max_length=255, json_schema_extra={"pattern": _ATTRIBUTE}),
    in_form(_ATTRIBUTE, "is not an attribute name: use only letters, digits, '.', '_' and '-'"),
]
ClientName = Annotated[str, Field(min_length=1, max_length=255)]
RealmName = Annotated[
    str,
    Field(max_length=255, json_schema_extra={"pattern": _REALM}),
    in_form(_REALM, "is not a realm name: write it without spaces and slashes"),
]


_PROPERTIES: Final = frozenset(
    {"username", "email", "firstName", "lastName", "emailVerified", "enabled"}
)
"""Properties of users. Keycloak's rules for searching them differ from its rules for attributes."""
_PARAMETERS: Final = "keycloak."
"""The parameter prefix for Keycloak's own searches."""


class KeycloakOptions(RestOptions):
    """Settings for the `keycloak` resolver. Durations in seconds."""

    issuer_settings = "url and realm"
    private_files = ("client_secret_file",)
    url: Annotated[Address, AfterValidator(_check_url)]
    """Keycloak's address, with any relative path: https://id.example.com or https://…/auth."""
    realm: RealmName
    """The realm that contains the users, the groups and the client."""
    client_id: ClientName
    """The client whose service account may read users and groups."""
    client_secret_file: SecretFile
    """A file with the client's secret, read again for every token."""
    allow_plaintext: bool = False
    """Whether the address may be http://, so that the secret and the groups are sent without
    encryption."""
    user_name: Literal["username", "email", "attribute"] = "username"
    """The name by which callers know a user. email: only verified addresses count; attribute: the
    values of user_attribute."""
    user_attribute: AttributeName | None = None
    """With attribute: the user attribute that contains the names, such as unixName. Only
    administrators may edit it, and each value must be unique in the realm."""
    group_name: Literal["path", "name"] = "path"
    """How ACLs name groups. path: with all groups above, such as /eng/backend; name: by the last
    part alone, which must be unique in the realm."""
    parents: bool = False
    """Whether a user is also in the groups above the user's groups."""
    changes: Literal["none", "admin_events"] = "none"
    """none: changes apply when cached groups expire; admin_events: queuegate asks Keycloak for its
    admin events, which the realm must record."""

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        if parse_address(self.url).scheme != "https" and not self.allow_plaintext:
            raise problem(
                "the client's secret would be sent without encryption: use https://, or set "
                "allow_plaintext: true"
            )
        if self.group_name == "path" and self.name_case == "lower":
            raise problem(
                "name_case: lower cannot be used with group_name: path, because different groups "
                "can have paths that differ only in case"
            )
        check_user_attribute(self.user_name, self.user_attribute)
        attribute = self.user_attribute or ""
        if attribute in _PROPERTIES or attribute.startswith(_PARAMETERS):
            raise problem("user_attribute is not an attribute that Keycloak can search for")
        return self

    def needs_authorities(self) -> bool:
        """Return whether the address uses TLS."""
        return parse_address(self.url).scheme == "https"

    def contradictions(self) -> Mapping[str, tuple[str, str]]:
        """Return a message and a remedy for each contradictory option."""
        result = dict(super().contradictions())
        if self.user_name == "username" and self.user_suffix.startswith("@"):
            result["user_suffix"] = (
                "user_suffix turns names into email addresses, but user_name is username",
                "set user_name: email, unless the user names are email addresses",
            )
        return result
