"""Random queues.yaml documents, of which YuniKorn refuses about half.

They concentrate on what its validator compares: names in different cases, parents and leaves, fixed
queues, filters, amounts and limits. Each document has few faults, so that one does not hide others.
"""

import random
from typing import Any, Final

import yaml

_NAMES: Final = ("a", "b", "Prod", "prod", "x-1", "rootless")
_ODD_NAMES: Final = ("", "a.b", "ä", "x y", "root", "@recovery@", "n" * 64, "n" * 65)
_TARGETS: Final = (
    *("a", "b", "prod", "Prod", "a.b", "a.prod", "b.Prod", "root.a", "root.Prod", "root.prod.a"),
    *("root.a.b", "root.b.Prod", "root.b.prod", "root.none", "none", "root.a.none", "root"),
    *("ROOT.a", "root.x-1.a", "root.rootless", "root.@recovery@"),
)
_ODD_TARGETS: Final = ("", "rootless", "rootless.a", "root.", ".a", "a b", "a..b", "ä")
_RULES: Final = ("fixed", "fixed", "fixed", "user", "provided", "tag", "Fixed", "TAG")
_ODD_RULES: Final = ("users", "recovery", "test", "1st", "", "User_2")
_ENTRIES: Final = ("ann", "ml", "a.b", "^robot-.*$", "x|y", "sys:x", "a/b", "bot$", "*")
_ODD_ENTRIES: Final = ("", "!x", "(", "x y", "[a", "a(b)c", "\\pL+")
_AMOUNTS: Final = ("0", "1", "2", "5", "10", "1k", "2Ki", "1 G", "0010")
_ODD_AMOUNTS: Final = ("", "-1", "1.5", "1m", "10E", "99999999999999999999", "1KB", " 1 ")
_ACLS: Final = ("*", "", " ", "ann", "ann,bob", "ann ml", " ml", "ann, bob")
_ODD_ACLS: Final = ("ann  ml", "a b c", "a\tb c", "ann ", " * ", "a\tb")
_ODD: Final = 0.03
"""How often a value is one that may be refused everywhere."""


class Generator:
    """Generates documents from a source of random numbers."""

    def __init__(self, rng: random.Random) -> None:
        """Create a generator."""
        self._rng = rng

    def document(self) -> str:
        """Return a document with one partition, or rarely with two."""
        count = 2 if self._chance(_ODD) else 1
        names = self._rng.sample(("default", "Default", "", "gpu"), count)
        partitions = [self._partition(name) for name in names]
        style = self._rng.choice((None, False, True))
        text: str = yaml.safe_dump({"partitions": partitions}, default_flow_style=style)
        return text.replace(": ''", ": ") if self._chance(0.2) else text

    def _partition(self, name: str) -> dict[str, Any]:
        partition: dict[str, Any] = {"name": name, "queues": self._top_queues()}
        if self._chance(0.7):
            count = self._rng.randint(1, 2)
            partition["placementrules"] = [self._rule() for _ in range(count)]
        if self._chance(0.1):
            partition["limits"] = self._limits()
        if self._chance(0.1):
            kind = self._pick(("fair", "binpacking", ""), ("Fair", "fifo"))
            weights = {"vcore": self._pick((0, 1, 0.5), (-1, "x"))}
            partition["nodesortpolicy"] = {"type": kind, "resourceweights": weights}
        return partition

    def _top_queues(self) -> list[dict[str, Any]]:
        if self._chance(0.15):
            return self._queues(2)
        root: dict[str, Any] = {"name": "root", "queues": self._queues(3)}
        if self._chance(0.05):
            root["maxapplications"] = self._rng.randint(0, 9)
        if self._chance(0.02):
            root["resources"] = {"max": {}}
        return [root]

    def _queues(self, depth: int) -> list[dict[str, Any]]:
        count = self._rng.randint(0, 3) if depth else 0
        names = self._rng.sample(_NAMES, count)
        if not self._chance(_ODD):
            names = list({name.lower(): name for name in names}.values())
        return [self._queue(self._pick((name,), _ODD_NAMES), depth - 1) for name in names]

    def _queue(self, name: str, depth: int) -> dict[str, Any]:
        queue: dict[str, Any] = {"name": name}
        if below := self._queues(depth):
            queue["queues"] = below
        if self._chance(0.4):
            queue["parent"] = self._rng.choice((True, True, False))
        if self._chance(0.2):
            queue["submitacl"] = self._pick(_ACLS, _ODD_ACLS)
        if self._chance(0.15):
            queue["resources"] = self._resources()
        if self._chance(0.15):
            queue["maxapplications"] = self._rng.choice((0, 1, 5, 9))
        if self._chance(0.15):
            queue["limits"] = self._limits()
        if self._chance(0.2):
            queue["childtemplate"] = self._template()
        return queue

    def _template(self) -> dict[str, Any]:
        template: dict[str, Any] = {}
        if self._chance(0.3):
            template["maxapplications"] = self._rng.choice((0, 3))
        if self._chance(0.3):
            template["properties"] = {self._pick(("x",), ("",)): self._rng.choice(("", "fifo"))}
        if self._chance(0.7):
            odd = self._chance(0.3)
            amounts = {self._rng.choice(("memory", "")): ""} if odd else self._amounts()
            template["resources"] = {self._rng.choice(("max", "guaranteed")): amounts}
        return template

    def _resources(self) -> dict[str, Any]:
        kinds = self._rng.sample(("max", "guaranteed"), self._rng.randint(1, 2))
        return {kind: self._amounts() for kind in kinds}

    def _amounts(self) -> dict[str, str]:
        names = self._rng.sample(("memory", "vcore", "gpu"), self._rng.randint(1, 2))
        return {name: self._pick(_AMOUNTS, _ODD_AMOUNTS) for name in names}

    def _limits(self) -> list[dict[str, Any]]:
        return [self._limit() for _ in range(self._rng.randint(1, 2))]

    def _limit(self) -> dict[str, Any]:
        limit: dict[str, Any] = {"limit": self._rng.choice(("", "all"))}
        if self._chance(0.8):
            limit["users"] = self._rng.sample(("ann", "bob", "*"), self._rng.randint(0, 2))
        if self._chance(0.4):
            limit["groups"] = self._rng.sample(("ml", "ops", "*"), self._rng.randint(0, 2))
        if self._chance(0.7):
            limit["maxapplications"] = self._rng.choice((1, 2, 9))
        if self._chance(0.5):
            limit["maxresources"] = self._amounts()
        return limit

    def _rule(self, depth: int = 2) -> dict[str, Any]:
        name = self._pick(_RULES, _ODD_RULES)
        rule: dict[str, Any] = {"name": name}
        if name.lower() == "fixed" or self._chance(0.1):
            rule["value"] = self._pick(_TARGETS, _ODD_TARGETS)
        elif name.lower() == "tag":
            rule["value"] = self._pick(("namespace", "Namespace"), ("",))
        if self._chance(0.4):
            rule["create"] = self._rng.choice((True, True, False))
        if self._chance(0.2):
            rule["filter"] = self._filter()
        if depth and self._chance(0.35):
            rule["parent"] = self._rule(depth - 1)
        return rule

    def _filter(self) -> dict[str, Any]:
        found: dict[str, Any] = {"type": self._pick(("", "allow", "Deny"), ("refuse",))}
        for key in ("users", "groups"):
            if self._chance(0.5):
                count = self._rng.randint(0, 2)
                found[key] = [self._pick(_ENTRIES, _ODD_ENTRIES) for _ in range(count)]
        return found

    def _pick(self, usual: tuple[Any, ...], odd: tuple[Any, ...]) -> Any:
        return self._rng.choice(odd if self._chance(_ODD) else usual)

    def _chance(self, probability: float) -> bool:
        return self._rng.random() < probability
