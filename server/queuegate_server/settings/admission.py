"""Settings of the admission webhook: the `admission` section."""

from enum import StrEnum
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from queuegate.policy.names import DEFAULT_PARTITION
from queuegate.policy.tree import Partition
from queuegate_server.config_fields import Section, check_with
from queuegate_server.settings.callers import certificate_name
from queuegate_server.settings.listeners import FilePath, parse_host_port
from queuegate_server.settings.queue_schedulers import Mode, ModeSetting, Schedulers

MAX_PATTERNS: Final = 100
_MAX_PATTERN: Final = 1_000


class GroupSource(StrEnum):
    """Where the requester's groups come from."""

    KUBERNETES = "kubernetes"
    DIRECTORY = "directory"
    BOTH = "both"


def _pattern(text: str) -> str:
    if not text or len(text) > _MAX_PATTERN:
        raise ValueError(f"must be 1 to {_MAX_PATTERN} characters long")
    from queuegate_server.formats.yunikorn import go_regexp  # noqa: PLC0415 - slow, rarely needed

    try:
        go_regexp.compile_pattern(text)
    except go_regexp.BadPattern as error:
        raise ValueError(f"the pattern {text!r} is not valid: {error}") from None
    return text


def _client_name(text: str) -> str:
    if not text.startswith(("spiffe://", "uri:", "dns:", "cn:")):
        raise ValueError("is not a certificate name: write spiffe://…, uri:…, dns:… or cn:…")
    return certificate_name(text)


Pattern = Annotated[str, AfterValidator(_pattern)]
"""A regular expression as in Go, searched in a user name."""
Patterns = Annotated[tuple[Pattern, ...], Field(max_length=MAX_PATTERNS)]
ALLOW_OR_DENY: Final = frozenset({"allow", "deny"})
"""The values of `unqueued` that are not paths."""


def _unqueued(text: str) -> str:
    if text not in {*ALLOW_OR_DENY, "root"} and not text.startswith("root."):
        raise ValueError("write allow, deny, or the full path of a queue, such as root.default")
    return text


KUBERNETES_CONTROLLERS: Final = tuple(
    f"^system:serviceaccount:kube-system:({names})-controller$"
    for names in (
        "cronjob|daemon-set|deployment|job|replicaset|replication|statefulset",
        "endpoint|endpointslice|endpointslicemirroring|ephemeral-volume|resource-claim",
    )
)
"""The controllers of `kube-controller-manager --use-service-account-credentials` that copy labels
to pods, to their owners, and to other objects. tests/e2e/kube/test_controller_manager.py verifies
this list.
"""


class Authorization(Section):
    """Answers to `kubectl auth can-i` about queues."""

    key: ClassVar = "admission.authorize"
    """The section's key in the settings."""
    partition: str = DEFAULT_PARTITION
    """The policy's partition."""
    groups: GroupSource = GroupSource.DIRECTORY
    """The user's groups: those in the request (`kubernetes`), the resolver's (`directory`), or
    `both`, which is the default if the policy is Kubernetes RBAC.
    """

    def source_of_groups(self, partition: Partition) -> GroupSource:
        """Return where groups come from for a partition."""
        is_default = "groups" not in self.model_fields_set
        is_rbac = partition.named_grants is not None
        return GroupSource.BOTH if is_default and is_rbac else self.groups


class QueueChecks(Authorization):
    """Checks of the queues that objects name."""

    key: ClassVar = "admission.queues"
    mode: ModeSetting = Mode.WARN
    """`off`: nothing is checked; `warn`: the request is allowed with a warning, which kubectl
    prints; `deny`: the request is refused."""
    schedulers: Schedulers = Schedulers()
    controllers: Patterns = KUBERNETES_CONTROLLERS
    """Users who are not checked, because they copy queue names from objects that were checked when
    they were created."""
    exempt: Patterns = ()
    """Other users who are not checked: administrators, and accounts of operators if you have made
    sure that all of their kinds are checked. Operators are not reviewed here."""
    kinds: Literal["listed", "all"] = "listed"
    """The kinds whose new and changed objects the webhook searches completely. `listed`: the kinds
    from which known operators create pods; `all`: also unlisted custom kinds. While the webhook
    does not answer, objects of unlisted kinds are accepted.
    """
    unqueued: Annotated[str, AfterValidator(_unqueued)] = "allow"
    """What happens to objects of a listed kind that do not name a queue: `allow`, `deny`, or the
    path of a queue to check instead.
    """

    @model_validator(mode="after")
    def _some_place(self) -> Self:
        listed = self.schedulers
        if not listed.places and not any(
            getattr(listed, name) for name in type(listed).model_fields if name != "places"
        ):
            raise ValueError(
                "schedulers is empty: list a scheduler, such as kueue: {}, or remove queues"
            )
        return self


class UserInfoAnnotation(Section):
    """The annotation yunikorn.apache.org/user.info."""

    groups: GroupSource = GroupSource.KUBERNETES
    """The groups to write: those in the request (`kubernetes`), the resolver's groups that the
    policy can use (`directory`), or `both`."""
    partition: str = DEFAULT_PARTITION
    """The partition whose resolver and policy are used: the partition that the scheduler reads."""
    on_outage: Literal["refuse", "kubernetes"] = "refuse"
    """What happens while a user's groups cannot be looked up: the request is refused, or the groups
    in the request are used."""


class YuniKornDuties(Section):
    """What the webhook does in place of YuniKorn's own admission controller."""

    enabled: bool = False
    """Whether the webhook replaces YuniKorn's own admission controller, which then need not be
    installed."""


class WebhookTls(Section):
    """The certificates of the webhook's port and of its clients."""

    certificate_file: FilePath
    """The certificate, PEM; reloaded when it changes."""
    key_file: FilePath
    """The certificate's private key, PEM."""
    client_ca_file: FilePath | None = None
    """The CA that signs client certificates, PEM; reloaded when it changes. If set, every client
    must present a certificate, except on the operations port."""
    client_names: tuple[Annotated[str, AfterValidator(_client_name)], ...] = ()
    """The names to accept in client certificates: spiffe://…, uri:…, dns:… or cn:…. If empty, any
    certificate signed by the CA is accepted."""

    @model_validator(mode="after")
    def _verified_names(self) -> Self:
        if self.client_names and self.client_ca_file is None:
            raise ValueError("client_names needs client_ca_file, which verifies certificates")
        return self


class Admission(Section):
    """The Kubernetes admission webhook, `queuegate-server admission`."""

    listen: Annotated[str, check_with(parse_host_port)] = "0.0.0.0:8443"
    """The HTTPS address, as host:port."""
    tls: WebhookTls | None = None
    """The certificates. Required by the webhook."""
    queues: QueueChecks | None = None
    """Checks of the queues that objects name. If unset, nothing is checked."""
    authorize: Authorization | None = None
    """Answers to `kubectl auth can-i` about queues, for clients with a certificate that
    `tls.client_ca_file` accepts. If unset, a webhook with admission.queues answers with that
    section's partition and source of groups, and other webhooks do not answer.
    """
    user_info: UserInfoAnnotation | None = None
    """How the annotation yunikorn.apache.org/user.info is written. If the webhook checks queues,
    the API server sends it requests about the annotation only if this section is set, even to `{}`,
    or if `yunikorn.enabled` is true."""
    yunikorn: YuniKornDuties = YuniKornDuties()

    @model_validator(mode="after")
    def _verified_clients(self) -> Self:
        if self.authorize is not None and self.tls is not None and not self.tls.client_ca_file:
            raise ValueError("authorize needs tls.client_ca_file, which verifies clients")
        return self

    @property
    def needs_policy(self) -> bool:
        """Whether the webhook makes decisions with the policy or looks up groups."""
        return self.authorization is not None or (
            self.user_info is not None and self.user_info.groups is not GroupSource.KUBERNETES
        )

    @property
    def authorization(self) -> Authorization | None:
        """How `kubectl auth can-i` is answered; None if it is not."""
        return self.authorize or self.queues
