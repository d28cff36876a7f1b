"""Settings for the `entra` resolver."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, Self

from pydantic import AfterValidator, Field, model_validator

from queuegate_server.config_fields import check_file
from queuegate_server.identity.rest.assertion import parse_certificate
from queuegate_server.identity.rest.provider_options import (
    Address,
    Origin,
    RestOptions,
    SecretFile,
    in_form,
    parse_address,
    problem,
)


class CloudAddresses(NamedTuple):
    """Where a cloud issues tokens and serves Microsoft Graph."""

    login: str
    graph: str


CLOUDS: Final[Mapping[str, CloudAddresses]] = {
    "global": CloudAddresses("https://login.microsoftonline.com", "https://graph.microsoft.com"),
    "us_government": CloudAddresses(
        "https://login.microsoftonline.us", "https://graph.microsoft.us"
    ),
    "us_government_dod": CloudAddresses(
        "https://login.microsoftonline.us", "https://dod-graph.microsoft.us"
    ),
    "china": CloudAddresses(
        "https://login.partner.microsoftonline.cn", "https://microsoftgraph.chinacloudapi.cn"
    ),
}

_OF_MANY_TENANTS: Final = frozenset({"common", "consumers", "organizations"})
_VERSIONS: Final = frozenset({"v1.0", "beta"})


def _check_tenant(name: str) -> str:
    if name.lower() in _OF_MANY_TENANTS:
        raise ValueError("stands for many tenants: write the ID or a domain of your own")
    return name


def _check_graph_url(text: str) -> str:
    if parse_address(text).raw_path.rpartition("/")[2] in _VERSIONS:
        raise ValueError("ends with the API version: write the address without it")
    return text


_TENANT: Final = r"^[A-Za-z0-9][A-Za-z0-9.-]*$"
_CLIENT: Final = r"^[A-Za-z0-9-]+$"
TenantName = Annotated[
    str,
    Field(max_length=255, json_schema_extra={"pattern": _TENANT}),
    in_form(_TENANT, "is not a tenant: write its ID, or a domain like example.com"),
    AfterValidator(_check_tenant),
]
CertificateFile = Annotated[Path, check_file(parse_certificate)]
ClientName = Annotated[
    str,
    Field(max_length=64, json_schema_extra={"pattern": _CLIENT}),
    in_form(_CLIENT, "is not an application ID: copy the Application (client) ID"),
]


class EntraOptions(RestOptions):
    """Settings for the `entra` resolver. Durations in seconds."""

    issuer_settings = "tenant, cloud and login_url"
    private_files = ("client_secret_file", "certificate_file")
    tenant: TenantName
    """The tenant's ID, or one of its domains."""
    client_id: ClientName
    """The ID of the registered application."""
    client_secret_file: SecretFile | None = None
    """A file with the application's secret, read again for every token."""
    federated_token_file: SecretFile | None = None
    """A file with a token from another issuer that the application trusts, as with workload
    identity in Kubernetes; read again for every token. Used instead of client_secret_file."""
    certificate_file: CertificateFile | None = None
    """A PEM file with the application's certificate and RSA key, read again for every token.
    Used instead of client_secret_file."""
    cloud: Literal["global", "us_government", "us_government_dod", "china"] = "global"
    """The tenant's cloud. us_government: GCC High; us_government_dod: DoD."""
    login_url: Origin | None = None
    """The address where tokens are issued, if no value of cloud applies."""
    graph_url: Annotated[Address, AfterValidator(_check_graph_url)] | None = None
    """The address where Microsoft Graph is served, if no value of cloud applies."""
    user_name: Literal["upn", "sam_account_name"] = "upn"
    """The name by which callers know a user. sam_account_name: the name in the Active Directory
    from which the user is synchronized."""
    group_name: Literal["id", "display_name", "sam_account_name"] = "id"
    """How ACLs name groups. Names other than IDs must be unique in the tenant; groups without such
    a name are left out."""
    groups: Literal["security", "synced", "all"] = "security"
    """security: security groups; synced: groups synchronized from an Active Directory; all: also
    Microsoft 365 groups and distribution lists."""
    changes: Literal["none", "delta"] = "none"
    """none: changes apply when cached groups expire; delta: queuegate asks Microsoft Graph for
    changes to groups and users."""

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        if len(self.credentials) != 1:
            raise problem(
                "set one of client_secret_file, certificate_file and federated_token_file"
            )
        if any(parse_address(url).scheme != "https" for url in self.addresses):
            raise problem("the credentials would be sent without encryption: use https://")
        return self

    @property
    def credentials(self) -> tuple[Path, ...]:
        """The files of credentials. Exactly one must be set."""
        files = (self.client_secret_file, self.certificate_file, self.federated_token_file)
        return tuple(file for file in files if file is not None)

    @property
    def addresses(self) -> CloudAddresses:
        """Where tokens are issued and Microsoft Graph is served, without slashes at the end."""
        cloud = CLOUDS[self.cloud]
        return CloudAddresses(
            (self.login_url or cloud.login).rstrip("/"), (self.graph_url or cloud.graph).rstrip("/")
        )

    def contradictions(self) -> Mapping[str, tuple[str, str]]:
        """Return a message and a remedy for each contradictory option."""
        result = dict(super().contradictions())
        if self.group_name == "display_name" and self.groups != "synced":
            message = (
                "users who may create groups choose their display names, so they can take a name "
                "that an ACL lists and no group has yet"
            )
            remedy = "set groups: synced, set group_name: id, or do not let users create groups"
            result["group_name"] = message, remedy
        if self.user_name == "sam_account_name" and self.user_suffix.startswith("@"):
            message = "user_suffix turns names into UPNs, but user_name is sam_account_name"
            result["user_suffix"] = message, "set user_name: upn, or delete user_suffix"
        return result
