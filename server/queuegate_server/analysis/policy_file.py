"""A loaded policy with its text, its ACLs' positions, and commands that reproduce decisions."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from queuegate.policy.acl import AclNames
from queuegate.policy.chain import CLUSTER
from queuegate.policy.claims import Answer
from queuegate.policy.decision import Access
from queuegate.policy.names import DEFAULT_PARTITION
from queuegate.policy.reach import Grant, SubjectKind
from queuegate.policy.tree import Partition
from queuegate.policy.worlds import Person
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.formats.acl_positions import AclKey, Place, acl_key, acl_positions
from queuegate_server.formats.diagnostics import quoted
from queuegate_server.formats.envelope import SITE_KEY, open_envelope
from queuegate_server.formats.format_names import KUBERNETES, YUNIKORN
from queuegate_server.formats.registry import FormatOptions, open_policy

STDIN_NAME: Final = "<stdin>"


@dataclass(frozen=True)
class PolicyFile:
    """A loaded policy."""

    name: str
    data: bytes
    format_name: str
    options: FormatOptions
    partitions: Mapping[str, Partition]
    config: str = ""
    """The name of the settings file; empty if there is none."""
    distrusting: frozenset[str] = frozenset()
    """The partitions configured to ignore groups in requests."""

    @property
    def is_yunikorn(self) -> bool:
        """Whether the policy is in YuniKorn's format rather than YARN's."""
        return self.format_name == YUNIKORN

    @property
    def system(self) -> str:
        """What the policy is for: YuniKorn, YARN or Kubernetes."""
        names = {YUNIKORN: "YuniKorn", KUBERNETES: "Kubernetes"}
        return names.get(self.format_name, "YARN")

    @cached_property
    def positions(self) -> Mapping[AclKey, Place]:
        """The ACLs' positions; none for Kubernetes' RBAC, where many objects make one ACL."""
        if self.format_name == KUBERNETES:
            return {}
        return acl_positions(self.format_name, self.data, self.name, self.options)

    def place(self, partition: str, path: str, grant: Grant) -> Place:
        """Return the position of the ACL or setting that grants access to `path`, or only its file
        if the position is unknown.
        """
        key = acl_key(self.partitions[partition], path, grant.queue, grant.acl)
        return self.positions.get(key) or Place(self.name)

    def command(self, partition: str, person: Person, answer: Answer) -> str:
        """Return the POSIX shell command that reproduces the given decision about `person`."""
        access, queue = answer.use
        user = self.user(person)
        reading = self.reading_words(partition)
        words = ["queuegate", "check", *reading]
        is_like_option = user.startswith("-")
        if not is_like_option:
            words += [user, queue]
        if access is not Access.SUBMIT:
            words += ["--access", str(access)]
        # Omit --partition if a YARN file is read without settings, as it always defines `default`.
        is_default = bool(reading) and not self.is_yunikorn and not self.config
        if partition != DEFAULT_PARTITION and not is_default:
            words += ["--partition", partition]
        groups = person.groups
        # Without any of --group, --resolved-group and --no-groups, the command would look up
        # groups.
        says_none = not groups and (not answer.is_allowed or person.real_user)
        if not self._why_not_in_request(partition, person):
            words += ["--no-groups"] if says_none else []
            for group in groups:
                words += ["--group", group]
        elif reading:
            for group in (self._unused("no-group"),) if says_none else groups:
                words += ["--resolved-group", group]
        if person.real_user:
            words += ["--real-user", person.real_user]
        if is_like_option:
            words += ["--", user, queue]
        return " ".join(map(_shell_word, words))

    def note(self, partition: str, person: Person) -> str:
        """Return why reproducing a decision requires a resolver's groups, or "" if it does not."""
        why = self._why_not_in_request(partition, person)
        if not (why and person.groups):
            return ""
        return f"a server decides the same if its resolver returns these groups; {why}"

    def _why_not_in_request(self, partition: str, person: Person) -> str:
        """Return why requests cannot contain the person's groups, or "" if they can."""
        user = self.user(person)
        if not self.partitions[partition].accepts_user(user):
            why = f"{quoted(user)} is not a valid YuniKorn user name"
            return f"it rejects requests with groups, because {why}"
        if partition in self.distrusting:
            return "it ignores groups in requests (trust_provided_groups: false)"
        odd = next((each for each in person.groups if "," in each or each != each.strip()), "")
        return f"--group cannot express {quoted(odd)}" if odd else ""

    def reading_words(self, partition: str) -> Sequence[str]:
        """Return the options that make `queuegate check` read the same partition from the same
        file.
        """
        more = ["--config", self.config] if self.config else _words(self.options, partition)
        # The command rejects `-`, but can read redirected standard input from this path.
        name = "/dev/stdin" if self.name == STDIN_NAME else self.name
        return ["--policy", name, *more]

    def user(self, person: Person) -> str:
        """Return the person's user name, or an unused name if the person is unnamed."""
        return person.user or self._unused("somebody")

    def _unused(self, name: str) -> str:
        while name.encode() in self._texts:
            name += "-else"
        return name

    @cached_property
    def _texts(self) -> bytes:
        """All text that may contain user names, searched to find an unused name."""
        yarn = self.options.yarn
        site = open_envelope(*yarn.site, key=SITE_KEY).data if yarn.site else b""
        text = open_policy(self.data, self.name, self.options).data
        return b"\n".join((text, site, yarn.daemon_user.encode()))


def _shell_word(text: str) -> str:
    """Quote text for a POSIX shell, escaping invisible and control characters."""
    if text.isprintable():
        return shlex.quote(text)
    escaped = "".join(
        char
        if char.isprintable() and char not in "%\\'"
        else "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", "surrogateescape"))
        for char in text
    )
    return f"\"$(printf '{escaped}')\""


def _words(options: FormatOptions, partition: str) -> Iterable[str]:
    names = options.acl_names_of(partition)
    if names is not AclNames.YUNIKORN:
        yield from ("--acl-names", str(names))
    if options.yarn.semantics is not Semantics.DOCUMENTED:
        yield from ("--semantics", str(options.yarn.semantics))
    if options.yarn.site is not None:
        yield from ("--yarn-site", options.yarn.site[1])


def in_words(grant: Grant) -> str:
    """Describe the ACL entry or setting that grants access."""
    if grant.acl is None:
        return "yarn.acl.enable is not true: YARN enforces no ACLs"
    where = f"the {grant.acl} ACL of {grant.queue}"
    if grant.queue == CLUSTER:
        where = "the list of the cluster's administrators"
    if grant.kind is SubjectKind.EVERYONE:
        return f"{where} lets everyone in"
    return f"{where} lists the {grant.kind} {quoted(grant.name)}"
