"""What can be set for the resolver `ldap`; checked without the driver and the network."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from queuegate_server.config_fields import Duration
from queuegate_server.identity.options import ResolverOptions
from queuegate_server.identity.resolvers.ldap import diagnose
from queuegate_server.identity.resolvers.ldap.presets import PRESETS, Preset
from queuegate_server.identity.resolvers.ldap.secrets_dir import (
    DEFAULT_SECRETS,
    TRIMMED_FILE,
    BadSecrets,
    read_secrets,
)


class LdapOptions(ResolverOptions):
    """Settings of the resolver `ldap`. Durations in seconds."""

    lookup_timeout: Annotated[Duration, Field(ge=0.001, le=60)] = Field(
        5.0, description="How long one look-up may take, failover included."
    )
    breaker_pause: Annotated[Duration, Field(ge=0.001, le=3600)] = Field(
        1.0, description="How long a failing directory is left alone before one look-up tries it."
    )
    preset: Preset | None = Field(
        None, description="Fills in what is usual in this kind of directory and not set here."
    )
    secrets_dir: Path | None = Field(
        None, description="A folder with YuniKorn's LDAP keys (Host, Port, BaseDN, …)."
    )
    # Which servers, and how to reach them.
    urls: tuple[str, ...] = Field(
        (), description="Servers, the preferred one first: ldap://host[:port] or ldaps://…"
    )
    discover: str | None = Field(
        None,
        description="A domain whose DNS names the servers (_ldap._tcp; _ldaps._tcp with "
        "start_tls: false), in place of urls.",
    )
    start_tls: bool = Field(True, description="Whether ldap:// is encrypted by StartTLS.")
    ca_file: Path | None = Field(
        None, description="Certificates to trust. Default: those of the system."
    )
    cert_file: Path | None = Field(None, description="The certificate to show to the server.")
    key_file: Path | None = Field(None, description="The key of cert_file.")
    tls_server_name: str | None = Field(
        None, min_length=1, description="The name that certificates must hold, if not the host's."
    )
    tls_min_version: Literal["1.2", "1.3"] = "1.2"
    verify_certificate: bool = Field(
        True, description="false: anyone may pose as the directory. Logged at every start."
    )
    # Who we are.
    bind: Literal["simple", "anonymous", "external", "gssapi"] = Field(
        "simple",
        description="simple: bind_dn and a password; external: the certificate of cert_file; "
        "gssapi: Kerberos; anonymous: nobody.",
    )
    bind_dn: str | None = Field(
        None, description="A DN; for Active Directory also user@domain or DOMAIN\\user."
    )
    bind_password_file: Path | None = Field(
        None, description="Holds the password; read again whenever a connection is made."
    )
    keytab_file: Path | None = Field(
        None, description="Kerberos keys of the account; the first principal in it is who we are."
    )
    credentials_cache: str | None = Field(
        None,
        min_length=1,
        description="Where Kerberos keeps its tickets, as KRB5CCNAME. Default: in memory with a "
        "keytab_file, otherwise that of the system.",
    )
    allow_plaintext_bind: bool = Field(
        False, description="Whether the password may be sent without encryption."
    )
    # Users.
    user_base: str = Field(description="The DN below which users are searched.")
    user_scope: Literal["sub", "one"] = "sub"
    user_filter: str = Field(
        "(&(objectClass=person)(uid={user}))",
        description="Finds a user; {user} or %s stands for the name.",
    )
    user_match: Literal["exact", "casefold"] = Field(
        "exact",
        description="How the name in the entry must equal the one asked for: a directory "
        "ignores case, spaces and width.",
    )
    # Groups.
    groups_from: Literal["member_of", "member_dn", "member_uid"] = Field(
        "member_dn",
        description="member_of: an attribute of the user; member_dn, member_uid: a search for "
        "groups that list the user's DN or name.",
    )
    member_of_attribute: str = "memberOf"
    group_base: str | None = Field(
        None, description="The DN below which groups are searched; with member_of optional."
    )
    group_filter: str = "(objectClass=groupOfNames)"
    member_attribute: Annotated[
        tuple[str, ...], BeforeValidator(diagnose.one_or_several), Field(min_length=1, max_length=8)
    ] = Field(("member",), description="Where groups list their members: a name or several.")
    group_name_from: Literal["attribute", "rdn"] = Field(
        "attribute",
        description="attribute: group_name_attribute; rdn: the first value of the group's DN.",
    )
    group_name_attribute: str = "cn"
    name_case: Literal["preserve", "lower"] = "preserve"
    nested: Literal["off", "walk", "in_chain"] = Field(
        "off",
        description="Groups in groups: walk searches level by level; in_chain lets Active "
        "Directory do it.",
    )
    nested_depth: int = Field(5, ge=1, le=50, description="How many levels are walked up.")
    primary_group: Literal["none", "user_name", "gid_number", "active_directory"] = Field(
        "none",
        description="The first group: none; named as the user, as in YuniKorn; the group of "
        "gidNumber; the group of primaryGroupID.",
    )
    # Bounds.
    max_groups: int = Field(
        5000, ge=1, le=100_000, description="More groups of one user are a failure."
    )
    page_size: int = Field(
        500, ge=0, le=10_000, description="For answers that a server refuses in one piece. 0: off."
    )
    connect_timeout: Annotated[Duration, Field(ge=0.05, le=60)] = Field(
        2.0, description="How long TCP, TLS and bind together may take."
    )
    operation_timeout: Annotated[Duration, Field(ge=0.05, le=60)] = Field(
        2.0, description="How long a server may take for one request."
    )
    max_in_flight: int = Field(
        64, ge=1, le=128, description="Requests under way on a connection at most."
    )
    max_queued: int = Field(
        1024, ge=0, le=100_000, description="Requests that may wait beyond it; more fail at once."
    )
    # The life of connections.
    max_age: Annotated[Duration, Field(ge=0.1, le=86_400)] = Field(
        900.0, description="A connection is replaced after this long, less up to a tenth."
    )
    idle_timeout: Annotated[Duration, Field(ge=0.1, le=86_400)] = Field(
        300.0, description="An unused connection to a server of second choice is closed."
    )
    keepalive_interval: Annotated[Duration, Field(ge=0.1, le=3600)] = Field(
        30.0, description="How long a connection may be silent before it is tried out."
    )
    retry_after: Annotated[Duration, Field(ge=0.05, le=300)] = Field(
        1.0, description="How long a server that failed is left alone."
    )
    fail_back_after: Annotated[Duration, Field(ge=0.05, le=3600)] = Field(
        30.0, description="The longest of such pauses while another server answers."
    )
    auth_retry_after: Annotated[Duration, Field(ge=0.05, le=3600)] = Field(
        60.0, description="The pause after refused credentials, unless the password changes."
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        if not given:
            # A policy that asks for `ldap` and settings that say nothing of it: as YuniKorn.
            given = {"secrets_dir": DEFAULT_SECRETS}
        folder = given.get("secrets_dir")
        from_folder: dict[str, Any] = {}
        if isinstance(folder, str) and folder:
            try:
                from_folder = read_secrets(Path(folder))
            except BadSecrets as error:
                raise _fault(f"secrets_dir {folder} {error}") from None
        preset = given.get("preset")
        usual = PRESETS.get(preset, {}) if isinstance(preset, str) else {}
        return {**usual, **from_folder, **given}

    _urls = field_validator("urls")(diagnose.urls)
    _domain = field_validator("discover")(diagnose.domain)
    _bases = field_validator("user_base", "group_base")(diagnose.base)
    _user_filter = field_validator("user_filter")(diagnose.user_filter)
    _group_filter = field_validator("group_filter")(diagnose.group_filter)
    _attributes = field_validator("member_of_attribute", "group_name_attribute")(diagnose.attribute)
    _member_attributes = field_validator("member_attribute")(diagnose.attributes)
    _bind_dn = field_validator("bind_dn")(diagnose.bind_name)
    _files = field_validator(
        "ca_file", "cert_file", "key_file", "bind_password_file", "keytab_file"
    )(diagnose.readable_file)

    @model_validator(mode="after")
    def _agree(self) -> Self:
        problem = diagnose.first_conflict(self)
        if problem:
            raise _fault(problem)
        return self

    @property
    def trims_password(self) -> bool:
        """True if the password is one of YuniKorn's LDAP keys, whose values it trims."""
        return self.secrets_dir is not None and (
            self.bind_password_file == self.secrets_dir / TRIMMED_FILE
        )


def _fault(message: str) -> PydanticCustomError:
    return PydanticCustomError("ldap", "{message}", {"message": message})
