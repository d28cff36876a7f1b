"""Queues that YARN's capacity scheduler creates on submission, and their ACLs.

The rules follow Hadoop 3.4 (`CapacitySchedulerQueueManager`, `AutoCreatedQueueTemplate`). Below a
configured *creator* queue, a submission creates the missing queues of its path. Their ACLs come
from templates keyed by the parent's path. The last levels of a template's path may be `*`, which
matches any name; the template with the fewest `*` takes precedence. ACLs configured at the path of
a created queue have no effect.

In a requested path, a `*` level represents any name not mentioned in a template, so a few paths can
represent all queues that may be created.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final, NamedTuple

from queuegate.policy.names import ROOT, SEPARATOR, is_at_or_below, parent_path

ANY_NAME: Final = "*"
MAX_CREATED_LEVELS: Final = 20
"""The maximum depth of created queues below a creator."""
DEFAULT_DEPTH: Final = 2
"""Hadoop's default for `auto-queue-creation-v2.maximum-queue-depth`."""
_NOBODY: Final = " "


class TemplateKind(StrEnum):
    """A kind of template, named as in the configuration. It determines the queues that the template
    affects.
    """

    LEAF_OF_MANAGED = "leaf-queue-template"
    """Queues below a creator with `auto-create-child-queue.enabled`."""
    ANY = "auto-queue-creation-v2.template"
    """All queues below a creator with `auto-queue-creation-v2.enabled`."""
    LEAF = "auto-queue-creation-v2.leaf-template"
    """Leaf queues below a creator with `auto-queue-creation-v2.enabled`. Takes precedence over
    `ANY`."""
    PARENT = "auto-queue-creation-v2.parent-template"
    """Parent queues below a creator with `auto-queue-creation-v2.enabled`. Takes precedence over
    `ANY`."""

    # Faster than Enum.__hash__; see `Access`.
    __hash__ = str.__hash__


class Creator(NamedTuple):
    """A configured queue below which submissions may create queues."""

    levels: int
    """The number of levels that may be created below the queue, at most MAX_CREATED_LEVELS."""
    is_managed: bool
    """Whether the creator has `auto-create-child-queue.enabled` (true) or
    `auto-queue-creation-v2.enabled` (false)."""


class Template(NamedTuple):
    """A template for created queues' ACLs. An ACL is None if the template does not set it."""

    kind: TemplateKind
    path: str
    """The path of the queues whose children the template applies to. Its last levels may be `*`."""
    submit_acl: str | None
    admin_acl: str | None


class CreatedAcls(NamedTuple):
    """A created queue's ACLs, as text."""

    path: str
    submit_acl: str
    admin_acl: str
    submit_template: Template | None
    """The template that sets the submit ACL. If None, the ACL lists nobody."""
    admin_template: Template | None
    """The template that sets the admin ACL. If None, the ACL lists nobody."""


@dataclass(frozen=True)
class QueueCreation:
    """A capacity scheduler's queue creation rules. Immutable."""

    creators: Mapping[str, Creator]
    """The creators by queue path."""
    templates: tuple[Template, ...] = ()
    depths: Mapping[str, int] = field(default_factory=dict)
    """`maximum-queue-depth` by path. This depth limits the number of `*` levels in templates for
    queues below the path.
    """
    default_depth: int = DEFAULT_DEPTH
    """The depth for paths not in `depths`."""

    @cached_property
    def _by_path(self) -> Mapping[str, Mapping[TemplateKind, Template]]:
        templates_by_path: dict[str, dict[TemplateKind, Template]] = {}
        for template in self.templates:
            templates_by_path.setdefault(template.path, {})[template.kind] = template
        return templates_by_path

    @cached_property
    def _most_wildcards(self) -> int:
        return max(map(trailing_wildcards, self._by_path), default=0)

    def creates(self, path: str, creator_path: str) -> bool:
        """Return whether a submission to a missing queue creates it.

        Args:
            path: The queue path.
            creator_path: The path of its nearest configured ancestor.
        """
        creator = self.creators.get(creator_path)
        levels = path.count(SEPARATOR) - creator_path.count(SEPARATOR)
        return creator is not None and levels <= creator.levels

    def created(self, path: str, creator_path: str) -> list[CreatedAcls]:
        """Return the queues that a submission to a missing queue creates, deepest first.

        Args:
            path: The queue path.
            creator_path: The path of its nearest configured ancestor.

        Returns:
            The queues; empty if the submission does not create the queue.
        """
        if not self.creates(path, creator_path):
            return []
        if self.creators[creator_path].is_managed:
            template = self._by_path.get(creator_path, {}).get(TemplateKind.LEAF_OF_MANAGED)
            return [_created_acls(path, () if template is None else (template,))]
        queues = [self._from_templates(path, TemplateKind.LEAF)]
        while (path := parent_path(path)) != creator_path:
            queues.append(self._from_templates(path, TemplateKind.PARENT))
        return queues

    def paths_below(self, path: str, nearest: str, queues: Container[str]) -> Iterator[str]:
        """Yield paths, with `*` for any name, that represent all queues that may be created below
        `path`.

        Args:
            path: The path of a queue, configured or not.
            nearest: The path of the nearest configured queue at or above `path`.
            queues: The paths of all configured queues.
        """
        starts = {creator: creator for creator in self.creators if is_at_or_below(creator, path)}
        if nearest != path and nearest in self.creators:
            starts[path] = nearest
        starts |= {
            mentioned: creator
            for mentioned, creator in self._mentioned(queues)
            if mentioned != path and is_at_or_below(mentioned, path)
        }
        for start, creator in starts.items():
            left = self.creators[creator].levels - start.count(SEPARATOR) + creator.count(SEPARATOR)
            if start not in (creator, path) and left >= 0:
                yield start
            yield from (start + f"{SEPARATOR}{ANY_NAME}" * each for each in range(1, left + 1))

    def _mentioned(self, queues: Container[str]) -> Iterator[tuple[str, str]]:
        """Yield the missing queues on the paths of templates and `depths`, with their creators."""
        for path in (*self._by_path, *self.depths):
            levels = path.split(SEPARATOR)
            named = levels[: len(levels) - trailing_wildcards(path)]
            if ANY_NAME in named:
                continue
            creator = ""
            for end in range(1, len(named) + 1):
                prefix = SEPARATOR.join(named[:end])
                if prefix in queues:
                    creator = prefix if prefix in self.creators else ""
                elif creator and not self.creators[creator].is_managed:
                    yield prefix, creator

    def _from_templates(self, path: str, kind: TemplateKind) -> CreatedAcls:
        templates = [*self._templates_at(parent_path(path))]
        ordered = [each[kind] for each in templates if kind in each]
        ordered += [each[TemplateKind.ANY] for each in templates if TemplateKind.ANY in each]
        return _created_acls(path, ordered)

    def _templates_at(self, path: str) -> Iterator[Mapping[TemplateKind, Template]]:
        """Yield the templates that apply to a queue's children, in order of precedence."""
        levels = path.split(SEPARATOR)
        depth = self.default_depth if ANY_NAME in levels else self.depths.get(path)
        if depth is None:
            depth = self.default_depth
        most = min(len(levels) - 1, depth, self._most_wildcards) if path != ROOT else min(0, depth)
        for count in range(trailing_wildcards(path), most + 1):
            names = levels[: len(levels) - count]
            pattern = SEPARATOR.join((*names, *[ANY_NAME] * count))
            if pattern in self._by_path:
                yield self._by_path[pattern]


def trailing_wildcards(path: str) -> int:
    """Return the number of trailing `*` levels in a path."""
    count = 0
    for level in reversed(path.split(SEPARATOR)):
        if level != ANY_NAME:
            break
        count += 1
    return count


def _created_acls(path: str, templates: Sequence[Template]) -> CreatedAcls:
    """Return a created queue's ACLs. Each is taken from the first template that sets it."""
    submits = ((each.submit_acl, each) for each in templates if each.submit_acl is not None)
    admins = ((each.admin_acl, each) for each in templates if each.admin_acl is not None)
    submit_acl, submit_template = next(submits, (_NOBODY, None))
    admin_acl, admin_template = next(admins, (_NOBODY, None))
    return CreatedAcls(path, submit_acl, admin_acl, submit_template, admin_template)
