"""Settings for the `okta` resolver."""

from typing import Literal, Self

from pydantic import Field, model_validator

from queuegate_server.identity.rest.options import (
    Address,
    RestOptions,
    SecretFile,
    parse_address,
    problem,
)


class OktaOptions(RestOptions):
    """Settings for the `okta` resolver. Durations in seconds."""

    url: Address
    """The address of the Okta organization, such as https://example.okta.com."""
    token_file: SecretFile
    """A file with an API token, read again when it changes."""
    group_name: Literal["name", "id"] = "name"
    """What groups are called by. Names must be unique in the organization."""
    groups: Literal["all", "okta"] = "all"
    """all: also groups that applications and directories supply; okta: only those of Okta."""
    page_size: int = Field(200, ge=10, le=200)
    """The number of entries per page."""

    @model_validator(mode="after")
    def _check_encryption(self) -> Self:
        if parse_address(self.url).scheme != "https":
            raise problem("the token would be sent without encryption: use https://")
        return self
