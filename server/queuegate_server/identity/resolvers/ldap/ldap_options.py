"""Settings for the `ldap` resolver, validated without network access.

Anything that would make every lookup fail regardless of the directory, such as a missing driver or
an unreadable file, is a settings error.
"""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from queuegate_server.config_fields import Duration, Section, note_absent_file
from queuegate_server.files.safe_open import read_regular
from queuegate_server.identity.certificate_advice import (
    check_authorities,
    openssl_reason,
    tls_context,
)
from queuegate_server.identity.options import ResolverOptions, unused
from queuegate_server.identity.resolvers.ldap.defaults import (
    DEFAULT_SECRETS,
    TRIMMED_FILE,
    BadSecrets,
    preset_defaults,
    read_secrets,
)
from queuegate_server.identity.resolvers.ldap.discovery import parse_url
from queuegate_server.identity.resolvers.ldap.driver_check import check_driver
from queuegate_server.identity.resolvers.ldap.option_types import (
    Attribute,
    Attributes,
    BaseDn,
    BaseDns,
    BindName,
    Domain,
    GroupFilter,
    Host,
    Keytab,
    ReadableFile,
    TicketCache,
    Urls,
    UserFilterText,
)

MAX_PASSWORD_BYTES: Final = 4096

PresetName = Literal["openldap", "389ds", "freeipa", "active_directory", "posix"]


class GroupOptions(Section):
    """Options for finding one kind of group."""

    groups_from: Literal["member_of", "member_dn", "member_uid"] = "member_dn"
    """member_of: an attribute of the user; member_dn, member_uid: a search for groups that list the
    user's DN or name."""
    member_of_attribute: Attribute = "memberOf"
    """With member_of: the user attribute that lists groups."""
    group_base: BaseDn | None = None
    """The DN below which to search for groups; optional with member_of."""
    group_filter: GroupFilter = "(objectClass=groupOfNames)"
    """The filter that matches group entries."""
    member_attribute: Attributes = ("member",)
    """The group attributes that list members."""
    group_name_from: Literal["attribute", "rdn"] = "attribute"
    """attribute: group_name_attribute; rdn: the first value of the group's DN."""
    group_name_attribute: Attribute = "cn"
    """The group attribute that contains the group's name."""


class MoreGroups(GroupOptions):
    """Options for finding an additional kind of group."""

    preset: PresetName | None = None
    """The type of directory; supplies defaults for options that are not set."""

    @model_validator(mode="before")
    @classmethod
    def _apply_preset(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        defaults = preset_defaults(given)
        return {key: defaults[key] for key in defaults if key in GroupOptions.model_fields} | given


class LdapOptions(GroupOptions, ResolverOptions):
    """Settings for the `ldap` resolver. Durations in seconds."""

    preset: PresetName | None = None
    """The type of directory; supplies defaults for options that are not set."""
    secrets_dir: Path | None = None
    """A directory with YuniKorn's LDAP keys (Host, Port, BaseDN, …)."""
    # Servers.
    urls: Urls = ()
    """Servers, the preferred one first: ldap://host[:port] or ldaps://…"""
    discover: Domain | None = None
    """A domain with DNS records for the servers (_ldap._tcp; _ldaps._tcp with start_tls: false),
    instead of urls."""
    start_tls: bool = True
    """Whether ldap:// is encrypted with StartTLS."""
    ca_file: ReadableFile | None = None
    """Trusted root certificates, and any intermediate certificates not sent by the server. Default:
    the system's."""
    cert_file: ReadableFile | None = None
    """The client certificate."""
    key_file: ReadableFile | None = None
    """The private key of cert_file."""
    tls_server_name: Host | None = None
    """The name in the server's certificate, if it differs from the host."""
    tls_min_version: Literal["1.2", "1.3"] = "1.2"
    """The minimum TLS version."""
    verify_certificate: bool = True
    """Whether to verify the server's certificate. If false, anyone can impersonate the directory; a
    warning is logged at each start."""
    # Bind.
    bind: Literal["simple", "anonymous", "external", "gssapi"] = "simple"
    """simple: bind_dn and a password; external: the client certificate; gssapi: Kerberos;
    anonymous: no credentials."""
    bind_dn: BindName | None = None
    r"""The bind account's DN. Active Directory also accepts user@domain and DOMAIN\user."""
    bind_password_file: ReadableFile | None = None
    """A file with the password, read again for every connection."""
    keytab_file: Keytab | None = None
    """A Kerberos keytab. Its first principal is the bind account."""
    credentials_cache: TicketCache | None = None
    """The Kerberos ticket cache, as in KRB5CCNAME. Default: memory with a keytab_file, otherwise
    the system's."""
    allow_plaintext_bind: bool = False
    """Whether the password may be sent without encryption."""
    # Users.
    user_base: BaseDns
    """The DN below which to search for users, or a list of such DNs."""
    user_scope: Literal["sub", "one"] = "sub"
    """sub: users anywhere below user_base; one: directly below it."""
    user_filter: UserFilterText = "(&(objectClass=person)(uid={user}))"
    """The filter for a user; {user} or %s is replaced with the name."""
    user_match: Literal["exact", "casefold"] = "exact"
    """exact: the name in the entry must equal the requested name; casefold: case is ignored.
    Directories ignore case, spaces and width."""
    disabled_users: Literal["refuse", "keep"] = "keep"
    """refuse: users whose account is disabled or has expired are treated as nonexistent; keep: they
    keep their groups.
    """
    # Groups. The inherited options apply to the first kind of group.
    more_groups: tuple[MoreGroups, ...] = Field((), max_length=7)
    """Additional kinds of groups. If not set, group_base is inherited from the first kind."""
    name_case: Literal["preserve", "lower"] = "preserve"
    """Whether group names are kept as they are or lowercased."""
    nested: Literal["off", "walk", "in_chain"] = "off"
    """Nested groups. walk: searched level by level; in_chain: searched by Active Directory."""
    nested_depth: int = Field(5, ge=1, le=50)
    """The maximum number of levels to walk up."""
    primary_group: Literal["none", "user_name", "gid_number", "active_directory"] = "none"
    """The group listed first. user_name: a group named after the user, as in YuniKorn; gid_number:
    the group with the user's gidNumber; active_directory: the group with the user's primaryGroupID.
    """
    unique_group_names: bool = False
    """Whether lookups fail if another group below a group_base has the name of one of the user's
    groups. Adds a search to lookups that find a name not checked in the last minute."""
    # Changes.
    changes: Literal["none", "syncrepl", "dirsync"] = "none"
    """none: changes apply when cached groups expire; syncrepl: the server reports changes to
    groups (RFC 4533: OpenLDAP with syncprov, FreeIPA); dirsync: queuegate asks Active Directory for
    them.
    """
    changes_of_users: bool = False
    """Whether changes to users are followed as well, such as when users are added, renamed,
    disabled or deleted.
    """
    repeat_after: Annotated[Duration, Field(ge=0, le=300)] = 5.0
    """How long after a change it is applied again, in case another server or memberOf lags behind.
    0: never."""
    # Limits.
    max_groups: int = Field(5000, ge=1, le=100_000)
    """The maximum number of groups per user. Lookups of users with more groups fail."""
    page_size: int = Field(500, ge=0, le=10_000)
    """The number of entries per page if a result exceeds the server's size limit. 0: no paging."""
    connect_timeout: Annotated[Duration, Field(ge=0.05, le=60)] = 2.0
    """How long TCP, TLS and the bind may take in total."""
    operation_timeout: Annotated[Duration, Field(ge=0.05, le=60)] = 2.0
    """How long a server may take for one request."""
    max_in_flight: int = Field(64, ge=1, le=128)
    """The maximum number of requests in progress on one connection."""

    @model_validator(mode="before")
    @classmethod
    def _apply_defaults(cls, given: Any, info: ValidationInfo) -> Any:
        if not isinstance(given, dict):
            return given
        setting = "secrets_dir"
        if not given:
            # The policy uses the `ldap` resolver, but the settings do not configure it. Read the
            # options from the Secret, as YuniKorn does.
            given = {"secrets_dir": DEFAULT_SECRETS}
            setting = f"secrets_dir {DEFAULT_SECRETS}"
        folder = given.get("secrets_dir")
        from_secrets: dict[str, Any] = {}
        if isinstance(folder, str) and folder:
            try:
                if note_absent_file(Path(folder), info):
                    from_secrets = {"user_base": ""}  # the only required option
                else:
                    from_secrets = read_secrets(Path(folder))
            except BadSecrets as error:
                raise _problem(f"{setting} {error}") from None
        return {**preset_defaults(given), **from_secrets, **given}

    @model_validator(mode="after")
    def _check_combination(self, info: ValidationInfo) -> Self:
        absent_files = info.context or set()
        if self.secrets_dir in absent_files:
            return self
        for message, is_conflict in self._conflicts().items():
            if is_conflict:
                raise _problem(message)
        files = {self.bind_password_file, self.ca_file, self.cert_file, self.key_file}
        try:
            if not absent_files & files:
                self.password()
                self.tls_context()
            check_driver(kerberos=self.bind == "gssapi", discovery=bool(self.discover))
        except (OSError, ValueError) as error:
            raise _problem(str(error)) from None
        return self

    def _conflicts(self) -> Mapping[str, object]:
        """Return whether each possible conflict between options exists, by its error message."""
        encrypted = self.start_tls or all(parse_url(url).encrypted for url in self.urls)
        is_simple = self.bind == "simple"
        by_password = self.bind_dn or self.bind_password_file
        by_ticket = self.keytab_file or self.credentials_cache
        searches = self.nested != "off" or self.primary_group in ("gid_number", "active_directory")
        return {
            "set either urls or discover": bool(self.urls) == bool(self.discover),
            "bind_dn and bind_password_file are required; without them set bind: anonymous": (
                is_simple and not (self.bind_dn and self.bind_password_file)
            ),
            "the password would be sent without encryption: use ldaps:// or start_tls: true, or "
            "set allow_plaintext_bind: true": (
                is_simple and not (encrypted or self.allow_plaintext_bind)
            ),
            f"bind_dn and bind_password_file cannot be used with bind: {self.bind}": (
                not is_simple and by_password
            ),
            f"keytab_file and credentials_cache cannot be used with bind: {self.bind}": (
                self.bind != "gssapi" and by_ticket
            ),
            "bind: external needs cert_file and key_file": (
                self.bind == "external" and not self.cert_file
            ),
            f"bind: {self.bind} needs ldaps:// or start_tls: true": (
                self.bind in ("external", "gssapi") and not encrypted
            ),
            "group_base is required to search for groups": any(
                not kind.group_base and (searches or kind.groups_from != "member_of")
                for kind in self.group_kinds
            ),
            f"changes: {self.changes} needs a group_base for each kind of group": (
                self.changes != "none" and not all(each.group_base for each in self.group_kinds)
            ),
            "changes_of_users: true needs changes: syncrepl or dirsync": (
                self.changes_of_users and self.changes == "none"
            ),
            "unique_group_names: true needs a group_base for each kind of group": (
                self.unique_group_names and not all(each.group_base for each in self.group_kinds)
            ),
            "unique_group_names: true cannot be used with group_name_from: rdn, because names in "
            "DNs cannot be searched": (
                self.unique_group_names
                and any(each.group_name_from == "rdn" for each in self.group_kinds)
            ),
            "nested cannot be used with groups_from: member_uid, whose groups contain no groups": (
                self.nested != "off"
                and all(kind.groups_from == "member_uid" for kind in self.group_kinds)
            ),
            "cert_file and key_file must be given together": (
                bool(self.cert_file) != bool(self.key_file)
            ),
        }

    def contradictions(self) -> Mapping[str, tuple[str, str]]:
        """Return a message and a remedy for each contradictory option: a timeout that leaves no
        time for failover within `lookup_timeout`, a member attribute that does not contain the
        required DNs, or a setting that has no effect.
        """
        remedy = "raise lookup_timeout, or lower this setting"
        result: dict[str, tuple[str, str]] = {}
        for key in ("connect_timeout", "operation_timeout"):
            seconds: float = getattr(self, key)
            if seconds >= self.lookup_timeout:
                message = (
                    f"{key} ({seconds:g} s) is not shorter than lookup_timeout "
                    f"({self.lookup_timeout:g} s), so a lookup times out before it can fail "
                    "over to another server"
                )
                result[key] = message, remedy
        if self.groups_from == "member_dn" and "memberuid" in map(str.lower, self.member_attribute):
            message = "memberUid lists the names of users, but groups_from is member_dn"
            result["member_attribute"] = message, "set groups_from: member_uid, or preset: posix"
        if self.changes == "none":
            result |= unused(self, "changes is none", "repeat_after")
        return result

    @property
    def group_kinds(self) -> tuple[GroupOptions, ...]:
        """The options for each kind of group, starting with the first kind."""
        base = {"group_base": self.group_base}
        more = (
            each if each.group_base else each.model_copy(update=base) for each in self.more_groups
        )
        return (self, *more)

    # Read these files for each new connection instead of watching them. Connections are rarely
    # opened, but must use the current content.

    def password(self) -> bytes:
        """Read the password from its file; return b"" if no file is configured. Blocks.

        Raises OSError. Raises ValueError if the password is empty, because the bind would then be
        anonymous (RFC 4513, 5.1.2).
        """
        file = self.bind_password_file
        if file is None:
            return b""
        password = read_regular(file, MAX_PASSWORD_BYTES)
        if self.secrets_dir is not None and file == self.secrets_dir / TRIMMED_FILE:
            password = password.strip()
        else:
            password = password.removesuffix(b"\n").removesuffix(b"\r")
        if not password or b"\0" in password or len(password) > MAX_PASSWORD_BYTES:
            raise ValueError(f"bind_password_file {file} contains no password")
        return password

    def tls_context(self) -> ssl.SSLContext:
        """Return an SSL context with the current certificate files. Raises ValueError.

        Blocks (for about 20 ms with the system's certificates).
        """
        context = tls_context(self.ca_file, self.tls_min_version, verify=self.verify_certificate)
        uses_tls = (
            self.start_tls or not self.urls or any(parse_url(url).encrypted for url in self.urls)
        )
        if self.ca_file is None and self.verify_certificate and uses_tls:
            check_authorities(context)
        if self.cert_file and self.key_file:
            try:
                # With an empty password, an encrypted key raises an error; without a password,
                # OpenSSL would prompt for one.
                context.load_cert_chain(self.cert_file, self.key_file, password="")
            except OSError as error:
                raise ValueError(
                    f"cert_file and key_file cannot be used: {openssl_reason(error)}"
                ) from None
        return context


def _problem(message: str) -> PydanticCustomError:
    return PydanticCustomError("ldap", "{message}", {"message": message})
