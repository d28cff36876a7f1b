"""Random policies of each format, with random facts and claims about them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from queuegate.policy.acl import AclNames
from queuegate.policy.tree import Partition
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.formats.registry import FormatOptions, load_policy
from queuegate_server.formats.yarn.load import YarnOptions
from tests.support.generators.policies import policy_text
from tests.support.generators.yarn import configuration
from tests.support.generators.yarn_files import fair_xml

USERS = ("ann", "bob", "cem", "dan")
GROUPS = ("dev", "ops", "qa", "ext")
PROXIES = ("hue", "knox")
FORMATS = ("yunikorn", "fair-scheduler", "capacity-scheduler")
_PATHS = ("root", "root.a", "root.a.x", "root.b", "root.b.y", "root.b.y.z", "root.@recovery@")


@dataclass(frozen=True)
class RandomPolicy:
    """A policy as text, with the options for reading it."""

    format_name: str
    text: str
    options: FormatOptions

    def load(self) -> Partition:
        loaded = load_policy(self.format_name, self.text.encode(), "policy", self.options)
        assert loaded.partitions, loaded.diagnostics
        return loaded.partitions["default"]


def random_policy(rng: random.Random, format_name: str, options: FormatOptions) -> RandomPolicy:
    is_yunikorn = format_name == "yunikorn"
    paths = [path for path in _PATHS if is_yunikorn or "@" not in path]
    if rng.random() < 0.7:
        paths = [path for path in paths if path == "root" or rng.random() < 0.8]
        paths = [path for path in paths if path == "root" or path.rpartition(".")[0] in paths]
    queues = {path: (_acl(rng, is_yunikorn), _acl(rng, is_yunikorn)) for path in paths}
    if is_yunikorn:
        text = policy_text({"default": ("", queues)})
    elif format_name == "fair-scheduler":
        text = f"<allocations>{fair_xml(_nested(queues, 'root'), 'queue')}</allocations>"
    else:
        properties: dict[str, str] = {}
        for path, (submit, admin) in queues.items():
            key = f"yarn.scheduler.capacity.{path}."
            properties |= {f"{key}acl_submit_applications": submit or " "}
            properties |= {f"{key}acl_administer_queue": admin or " "}
            if below := [each.rpartition(".")[2] for each in queues if _above(each) == path]:
                properties[f"{key}queues"] = ",".join(below)
        properties.setdefault("yarn.scheduler.capacity.root.queues", "only")
        text = configuration(properties)
    return RandomPolicy(format_name, text, options)


def random_options(rng: random.Random) -> FormatOptions:
    """Return options for reading policies."""
    admins = rng.choice([" ", " ", "dan", " ops", "*"])
    enabled = rng.choice(["true", "true", "true", "false"])
    site = configuration({"yarn.acl.enable": enabled, "yarn.admin.acl": admins})
    yarn = YarnOptions(
        semantics=rng.choice(list(Semantics)),
        site=(site.encode(), "yarn-site.xml") if rng.random() < 0.6 else None,
    )
    return FormatOptions(acl_names=rng.choice(list(AclNames)), yarn=yarn)


def _above(path: str) -> str:
    return path.rpartition(".")[0]


def _nested(queues: dict[str, tuple[str, str]], path: str) -> list[tuple]:  # type: ignore[type-arg]
    submit, admin = queues[path]
    below = [each for each in queues if _above(each) == path]
    children = [child for each in below for child in _nested(queues, each)]
    return [(path.rpartition(".")[2], submit or " ", admin or " ", children)]


def _acl(rng: random.Random, is_yunikorn: bool) -> str:
    kind = rng.random()
    if kind < 0.04:
        return "*"
    if kind < 0.5:
        return rng.choice(["", " "])
    users = rng.sample(USERS, rng.choice([0, 0, 1, 2]))
    if not is_yunikorn and rng.random() < 0.2:
        users.append(f"~{rng.choice(PROXIES)}")
    groups = rng.sample(GROUPS, rng.choice([0, 1, 1, 2]))
    return f"{','.join(users)} {','.join(groups)}" if users or groups else " "


def random_facts(rng: random.Random) -> list[str]:
    facts = []
    for _ in range(rng.choice([0, 0, 1, 2, 3])):
        one, other = rng.sample(GROUPS, 2)
        subject = rng.choice([one, f"group:{one}", f"user:{rng.choice(USERS)}"])
        facts.append(
            rng.choice([f"{subject} within {other}", f"{subject} and group:{other} disjoint"])
        )
    return facts


def random_claim(rng: random.Random) -> str:
    """Return a claim. The file to compare with is `old`."""
    access, other_access = rng.choices(["submit", "admin"], k=2)
    queue, other = (rng.choice([*_PATHS, "root.a.new", "root.new"]) for _ in range(2))
    deep = queue + rng.choice(["", ".**"])
    subjects = _subjects(rng)
    return rng.choice(
        [
            f"only {', '.join(rng.sample(subjects, rng.randint(3, 7)))} may {access} {deep}",
            f"nobody may {access} {deep}",
            f"never {rng.choice(subjects)} {access} {deep}",
            f"everyone may {access} {deep}",
            f"everyone in group:{rng.choice(GROUPS)} may {access} {deep}",
            f"nobody may {access} both {queue} and {other}",
            f"{access} {queue} within {other_access} {other}",
            "no new access compared with old",
        ]
    )


def _subjects(rng: random.Random) -> Sequence[str]:
    return [
        *(f"user:{name}" for name in USERS),
        *(f"group:{name}" for name in GROUPS),
        *(f"proxy:{name}" for name in PROXIES),
    ]
