"""`queuegate-server diff`: compares the users and groups that two policies' ACLs allow."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import click

from queuegate.cli.documented_command import DocumentedCommand
from queuegate.policy.acl import EMPTY, Acl
from queuegate.policy.created_queues import Creator, QueueCreation, TemplateKind
from queuegate.policy.decision import Access
from queuegate.policy.reach import SubjectKind
from queuegate.policy.tree import Partition
from queuegate.policy.worlds import Subject
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.analysis.access_changes import (
    ANY,
    GAIN,
    LOSS,
    AccessChange,
    AllowedGain,
    access_changes,
)
from queuegate_server.analysis.policy_file import PolicyFile
from queuegate_server.cli import EXIT_FAILURE, EXIT_INCOMPLETE, EXIT_NO, output_formats, policies
from queuegate_server.cli.command import (
    STDIN,
    Failure,
    config_option,
    old_site_option,
    reading_options,
)
from queuegate_server.cli.users_from import (
    exit_status,
    groups_by_partition,
    read_users,
    users_from_option,
)
from queuegate_server.formats.acl_positions import AclKey, Place, acls_by_key
from queuegate_server.formats.diagnostics import Diagnostic, printable, quoted
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.formats.registry import FormatOptions
from queuegate_server.formats.yarn.overrides import AUTHORIZER, asks_queuegate, authorizer
from queuegate_server.formats.yarn.properties import Configuration
from queuegate_server.formats.yarn.site import ADMINS, ENABLE, read_site

_ALLOWED: Final = re.compile(r"(?:(user|group|proxy):(.+)|everyone):(root(?:\..+)?)")


class Difference(NamedTuple):
    """A change to a partition, queue, ACL or template."""

    key: AclKey
    change: str
    place: Place | None = None
    """The position, if `key` does not determine it."""

    def __str__(self) -> str:
        queue = f", queue {quoted(self.key.queue)}" if self.key.queue else ""
        return f"partition {quoted(self.key.partition)}{queue}: {self.change}"


def _allowed_gains(
    _: click.Context, __: click.Parameter, values: tuple[str, ...]
) -> tuple[AllowedGain, ...]:
    """Parse the values of `--allow-gain`. Raises click.BadParameter."""
    gains = []
    for value in values:
        match = _ALLOWED.fullmatch(value)
        if match is None:
            message = f"{value!r} is not of the form SUBJECT:QUEUE, such as group:ml:root.ml"
            raise click.BadParameter(message)
        kind = SubjectKind(match[1]) if match[1] else SubjectKind.EVERYONE
        gains.append(AllowedGain(Subject(kind, match[2] or "*"), match[3]))
    return tuple(gains)


@click.command(
    cls=DocumentedCommand,
    example="queuegate-server diff --people old.yaml new.yaml",
    exit_statuses={
        0: "no differences, or only those accepted by --fail-on and --allow-gain",
        EXIT_NO: "a difference",
        EXIT_FAILURE: "incorrect usage, or an unreadable or invalid file",
        EXIT_INCOMPLETE: "no such difference, but the list of users is incomplete",
    },
)
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@click.option(
    "--people",
    "by_people",
    is_flag=True,
    help="Show who gains and who loses access, at the topmost queues of each change.",
)
@click.option(
    "--fail-on",
    type=click.Choice([GAIN, LOSS, ANY]),
    default=ANY,
    show_default=True,
    help="With --people: which differences cause exit status 1.",
)
@click.option(
    "--allow-gain",
    "allowed",
    multiple=True,
    metavar="SUBJECT:QUEUE",
    callback=_allowed_gains,
    help="With --people: an intended gain, at the queue and below, such as"
    " group:ml:root.ml, user:sue:root or everyone:root.open. Repeatable.",
)
@users_from_option
@config_option(
    "Read both policies, and look up groups for --users-from, as a server with this queuegate.yaml "
    "does.",
    variable=None,
)
@output_formats.output_option_with_markdown
@reading_options
@old_site_option
def diff(
    *,
    old: str,
    new: str,
    by_people: bool,
    fail_on: str,
    allowed: tuple[AllowedGain, ...],
    users_from: tuple[str, ...],
    config: Path | None,
    output: str,
    options: FormatOptions,
    old_yarn_site: Path | None,
) -> None:
    """Show how queue ACLs change from OLD to NEW.

    Needs no server. OLD or NEW may be - for standard input. Prints a line for each partition or
    queue that was added or removed, and for each ACL that allows different users or groups: + for
    added names, - for removed names. Compares only each queue's own ACLs, not the access inherited
    from the queues above. Both files must be for YuniKorn, or both for YARN. For YARN, also shows
    changes to yarn.acl.enable, yarn.admin.acl and yarn.authorization-provider between
    --old-yarn-site and --yarn-site, and marks changes to yarn.admin.acl that affect only YARN's own
    decisions. Does not compare queue mappings, placement rules, priorities or reservations.

    With --people, instead shows who may use which queues under NEW but not under OLD, and vice
    versa. Includes access through the queues above; queues that only inherit a difference are
    counted, not listed. Shows the names in the ACLs, which cover all possible users, or, with
    --users-from, the actual people.
    """
    if config is not None:
        policies.refuse_reading_options()
    if by_people:
        before, after = _load(old, new, options, config, old_yarn_site)
        directories = users = None
        if users_from:
            users = read_users(users_from)
            directories = groups_by_partition(users, after.partitions, config, after.name)
        changes = [*access_changes(before, after, directories, allowed)]
        for note in _differences(before, after):
            if not note.key.queue:
                click.echo(f"note: {note}", err=True)
        failed = _show_people(before, after, changes, fail_on, output)
        sys.exit(exit_status(users, EXIT_NO if failed else 0))
    only_with_people = {
        "--users-from": users_from,
        "--allow-gain": allowed,
        "--fail-on": fail_on != ANY,
        "-o markdown": output == output_formats.MARKDOWN,
    }
    if given := [option for option, value in only_with_people.items() if value]:
        message = f"{', '.join(given)}: only with --people"
        raise click.UsageError(message, click.get_current_context())
    before, after = _load(old, new, options, config, old_yarn_site)
    entries = list(_differences(before, after))
    output_formats.write(
        output,
        "diff",
        (
            Diagnostic(
                *(each.place or _place(each.key, before, after)),
                Severity.WARNING,
                str(each),
                queue=each.key.queue,
                finding="policy-changed",
            )
            for each in entries
        ),
        text=map(str, entries),
        document={
            "old": old,
            "new": new,
            "differences": [
                {"partition": each.key.partition, "queue": each.key.queue, "change": each.change}
                for each in entries
            ],
        },
    )
    sys.exit(EXIT_NO if entries else 0)


def _show_people(
    old: PolicyFile, new: PolicyFile, access_changes: list[AccessChange], fail_on: str, output: str
) -> bool:
    """Print who gains and loses access; return whether any change is a failure."""
    failed = sum(each.fails(fail_on) for each in access_changes)
    output_formats.write(
        output,
        "diff",
        (each.diagnostic(fail_on) for each in access_changes),
        text=(printable(str(each)) for each in access_changes),
        markdown=_markdown(access_changes, fail_on),
        document={
            "old": old.name,
            "new": new.name,
            "changes": [each.document() for each in access_changes],
            "failed": failed,
        },
    )
    return bool(failed)


def _markdown(changes: Iterable[AccessChange], fail_on: str) -> Iterator[str]:
    """Yield the lines of a Markdown table for a pull request."""
    rows = [*changes]
    if not rows:
        yield "Nobody gains or loses access to a queue."
        return
    yield "| | queue | access | gain | lose | queues below |"
    yield "|---|---|---|---|---|---|"
    for each in rows:
        mark = "❌" if each.fails(fail_on) else "✅"
        cells = (
            output_formats.code(side.in_words("")[1:]) if side else ""
            for side in (each.gained, each.lost)
        )
        below = f"{each.below}" + (f" (+ {each.partly_below} partly)" if each.partly_below else "")
        queue = output_formats.code(f"{each.partition}: {each.queue}")
        yield f"| {mark} | {queue} | {each.access} | {' | '.join(cells)} | {below} |"


def _place(key: AclKey, old: PolicyFile, new: PolicyFile) -> Place:
    """Return a change's position in the new file or, for a removal, in the old file."""
    above = AclKey(key.partition, key.queue, None)
    places = (new.positions.get(key), old.positions.get(key), new.positions.get(above))
    return next(filter(None, places), Place(new.name))


def _load(
    old: str, new: str, options: FormatOptions, config: Path | None, old_site: Path | None
) -> tuple[PolicyFile, PolicyFile]:
    """Load both policies. Raises Failure if they cannot be read or compared."""
    if old == new == STDIN:
        raise Failure("only one of the two can be standard input")
    before = policies.load(old, options, config, old_site)
    after = policies.load(new, options, config)
    if before.system != after.system:
        # They are not comparable, because queue names follow different rules, and only YARN has
        # cluster administrators.
        if empty := [each.name for each in (before, after) if not each.data.strip()]:
            raise Failure(f"{empty[0]}: the file is empty: pass a policy")
        remedy = "compare two of the same kind"
        if {before.system, after.system} == {"YuniKorn", "YARN"}:
            remedy = "convert one of them first"
        systems = f"one file is for {before.system} and the other for {after.system}"
        raise Failure(f"{systems}: {remedy}")
    return before, after


def _differences(old: PolicyFile, new: PolicyFile) -> Iterator[Difference]:
    """Yield the differences between the policies, sorted by partition and queue.

    ACLs are compared by meaning, ignoring order, duplicates and names that grant nothing. A missing
    ACL is treated as an empty one.
    """
    for name in sorted({*old.partitions, *new.partitions}):
        before, after = old.partitions.get(name), new.partitions.get(name)
        whole = AclKey(name, "", None)
        if before is None or after is None:
            yield Difference(whole, "added" if before is None else "removed")
        elif before.resolver_type != after.resolver_type:
            types = quoted(before.resolver_type), quoted(after.resolver_type)
            yield Difference(whole, f"usergroupresolver: {types[0]} becomes {types[1]}")
        if before and after:
            yield from _clusters(name, old, new)
        yield from _queues(name, before, after)
        yield from _templates(name, old, new)


def _clusters(partition: str, old: PolicyFile, new: PolicyFile) -> Iterator[Difference]:
    """Yield the differences between the settings in two yarn-site.xml files."""
    before, after = old.partitions[partition].cluster, new.partitions[partition].cluster
    if before is None or after is None:
        return
    key = AclKey(partition, "", Access.ADMIN)
    if before.acls_enabled is not after.acls_enabled:
        change = f"{str(before.acls_enabled).lower()} becomes {str(after.acls_enabled).lower()}"
        yield Difference(key._replace(access=None), f"{ENABLE}: {change}")
    site_before, site_after = (
        read_site(each.options.yarn.site, each.options.yarn.semantics)[0].configuration
        for each in (old, new)
    )
    classes = [authorizer(each) for each in (site_before, site_after)]
    if classes[0] != classes[1]:
        was, now = (quoted(each) if each else "an unknown class" for each in classes)
        yield Difference(
            key._replace(access=None),
            f"{AUTHORIZER}: {was} becomes {now}",
            _authorizer_place(new, site_after) or _authorizer_place(old, site_before),
        )
    if change := ", ".join(_changes(before.admins, after.admins)):
        is_yarns = after.semantics is Semantics.HADOOP and asks_queuegate(site_after)
        yield Difference(key, f"{ADMINS}: {change}{' (used by YARN only)' * is_yarns}")


def _authorizer_place(policy: PolicyFile, site: Configuration) -> Place | None:
    stated = site.position(AUTHORIZER)
    return Place(stated.file or policy.name, stated.line, stated.column) if stated else None


def _queues(name: str, old: Partition | None, new: Partition | None) -> Iterator[Difference]:
    before, after = (each.queues if each else {} for each in (old, new))
    was, now = _acls(old), _acls(new)
    for path in sorted({*before, *after}):
        if path not in before or path not in after:
            change = "removed" if path in before else "added"
            yield Difference(AclKey(name, path, None), change)
        for access in Access:
            key = AclKey(name, path, access)
            if changes := ", ".join(_changes(was.get(key, EMPTY), now.get(key, EMPTY))):
                yield Difference(key, f"{access} ACL: {changes}")


def _templates(partition: str, old: PolicyFile, new: PolicyFile) -> Iterator[Difference]:
    """Yield the differences between templates for queues created on demand.

    Templates that neither policy uses are not compared.
    """
    before, after = old.partitions.get(partition), new.partitions.get(partition)
    was, now = ((each and each.creation) or QueueCreation({}) for each in (before, after))
    for path in sorted({*was.creators, *now.creators}):
        first, second = was.creators.get(path), now.creators.get(path)
        if first != second:
            change = f"queues that will be created below: {_in_words(first)} becomes"
            creator = second or first
            is_managed = creator is not None and creator.is_managed
            kind = TemplateKind.LEAF_OF_MANAGED if is_managed else TemplateKind.ANY
            key = AclKey(partition, path, None, kind)
            yield Difference(key, f"{change} {_in_words(second)}")
    acls_old, acls_new = _acls(before), _acls(after)
    keys = (key for key in {**acls_old, **acls_new} if key.template)
    for key in sorted(keys, key=lambda key: (key.queue, key.template)):
        change = ", ".join(_changes(acls_old.get(key, EMPTY), acls_new.get(key, EMPTY)))
        if key not in acls_old:
            action = " takes effect" if key in old.positions else " added"
        elif key not in acls_new:
            action = " no longer takes effect" if key in new.positions else " removed"
        elif change:
            action = ""
        else:
            continue
        change = f"{key.template}: {key.access} ACL{action}{': ' * bool(change)}{change}"
        yield Difference(key, change)


def _acls(partition: Partition | None) -> Mapping[AclKey, Acl]:
    return dict(acls_by_key(partition)) if partition else {}


def _in_words(creator: Creator | None) -> str:
    if creator is None:
        return "none"
    if creator.is_managed:
        return "auto-create-child-queue"
    return f"auto-queue-creation-v2, {creator.levels} level{'s' * (creator.levels > 1)}"


def _changes(old: Acl, new: Acl) -> Iterator[str]:
    if old.allows_all is not new.allows_all:
        yield f"{'+' if new.allows_all else '-'} everyone"
    for kind, was, now, before, after in (
        ("user", old.users, new.users, old.origins.users, new.origins.users),
        ("group", old.groups, new.groups, old.origins.groups, new.origins.groups),
        ("proxy", old.proxies, new.proxies, {}, {}),
    ):
        for sign, names, origins in (("+", now - was, after), ("-", was - now, before)):
            for name in sorted(names):
                origin = f" ({printable('; '.join(origins[name]))})" if name in origins else ""
                yield f"{sign} {kind} {quoted(name)}{origin}"
