"""Settings for the `okta` resolver."""

from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from queuegate_server.config_fields import check_file
from queuegate_server.identity.rest.assertion import parse_private_key
from queuegate_server.identity.rest.provider_options import (
    Origin,
    RestOptions,
    SecretFile,
    check_user_attribute,
    in_form,
    parse_address,
    problem,
)

PrivateKeyFile = Annotated[Path, check_file(parse_private_key)]
_IDENTIFIER: Final = r"^[!-~]+$"
Identifier = Annotated[
    str,
    Field(max_length=255, json_schema_extra={"pattern": _IDENTIFIER}),
    in_form(_IDENTIFIER, "is not an ID: copy it from Okta, without spaces"),
]
_ATTRIBUTE: Final = r"^[A-Za-z][A-Za-z0-9_]*$"
AttributeName = Annotated[
    str,
    Field(max_length=255, json_schema_extra={"pattern": _ATTRIBUTE}),
    in_form(_ATTRIBUTE, "is not an attribute: write its variable name, such as unixName"),
]


def _check_url(text: str) -> str:
    host = parse_address(text).host or ""
    if "-admin.okta" in host:
        raise ValueError("is the address of the admin console: write it without -admin")
    return text


class OktaOptions(RestOptions):
    """Settings for the `okta` resolver. Durations in seconds."""

    issuer_settings = "url"
    private_files = ("token_file", "private_key_file")
    url: Annotated[Origin, AfterValidator(_check_url)]
    """The address of the Okta organization, such as https://example.okta.com."""
    token_file: SecretFile | None = None
    """A file with an API token, read again when it changes."""
    client_id: Identifier | None = None
    """The ID of an application of the type API Services, which is used instead of an API token."""
    private_key_file: PrivateKeyFile | None = None
    """A PEM file with the application's RSA key, read again for every token."""
    key_id: Identifier | None = None
    """The ID (kid) of the key in Okta; required if the application has several keys."""
    user_name: Literal["login", "attribute"] = "login"
    """The name by which callers know a user. login: the Okta username; attribute: the value of
    user_attribute."""
    user_attribute: AttributeName | None = None
    """With attribute: the variable name of the attribute in Okta's user profile that contains the
    names, such as unixName. Users must not be able to edit it, and each value must be unique."""
    group_name: Literal["name", "id"] = "name"
    """How ACLs name groups. Names must be unique in the organization."""
    groups: Literal["all", "okta"] = "all"
    """all: also groups that applications and directories supply; okta: only Okta's own."""
    changes: Literal["none", "system_log"] = "none"
    """none: changes apply when cached groups expire; system_log: queuegate asks Okta for the
    events in its System Log."""

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        if parse_address(self.url).scheme != "https":
            raise problem("the token would be sent without encryption: use https://")
        if (self.token_file is None) == (self.private_key_file is None):
            raise problem("set either token_file or private_key_file")
        if (self.client_id is None) != (self.private_key_file is None):
            raise problem("client_id and private_key_file belong together: set both or neither")
        if self.key_id is not None and self.private_key_file is None:
            raise problem("key_id needs private_key_file")
        if self.group_name == "id" and self.name_case == "lower":
            raise problem(
                "name_case: lower cannot be used with group_name: id, because IDs may differ only "
                "in case"
            )
        check_user_attribute(self.user_name, self.user_attribute)
        return self
