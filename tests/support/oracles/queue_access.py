"""A second evaluator of ACLs and queue access, slow and obvious on purpose.

It works on texts, character by character and level by level, and shares nothing with the product.
The property tests and the fuzz test check that both agree.
"""

from collections.abc import Mapping, Sequence

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
DIGITS = "0123456789"
WHITE_SPACE = [0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
WHITE_SPACE += [*range(0x09, 0x0E), 0x20, *range(0x2000, 0x200B)]


def is_user(name: str, others: str = "_.@-") -> bool:
    """Return whether a text is a user name. `others` are allowed besides letters and digits."""
    return is_group(name.removesuffix("$"), others)


def is_group(name: str, others: str = "_-") -> bool:
    if name == "" or name[0] not in LETTERS + "_":
        return False
    return all(character in LETTERS + DIGITS + others for character in name)


def is_any(name: str) -> bool:
    """Return whether a name has no control character and is not the wildcard."""
    if name in ("", "*"):
        return False
    codes = [ord(character) for character in name]
    return not any(
        code < 0x20 or 0x7F <= code <= 0x9F or code in (0x2028, 0x2029) for code in codes
    )


class AclOracle:
    """An ACL text, read by the rules of the fact sheet in order. `names` is the value of the
    setting `acl_names`.
    """

    def __init__(self, text: str, *, names: str = "yunikorn") -> None:
        signs = {"yunikorn": ("_.@-", "_-"), "extended": (":#/_.@-", ":_.-"), "any": ("", "")}
        of_users, of_groups = signs[names]
        self.everyone = False
        self.users: list[str] = []
        self.groups: list[str] = []
        self.is_error = text.count(" ") > 1
        if text == "" or self.is_error:
            return
        trimmed = text
        while trimmed and ord(trimmed[0]) in WHITE_SPACE:
            trimmed = trimmed[1:]
        while trimmed and ord(trimmed[-1]) in WHITE_SPACE:
            trimmed = trimmed[:-1]
        if trimmed == "*":
            self.everyone = True
            return
        parts = text.split(" ")
        users = parts[0].split(",")
        if users == ["*"]:
            self.everyone = True
        else:
            self.users = [
                name
                for name in users
                if (is_any(name) if names == "any" else is_user(name, of_users))
            ]
        if len(parts) == 2:
            groups = parts[1].split(",")
            if groups == ["*"]:
                self.everyone = True
                self.users = []
            elif not self.everyone:
                self.groups = [
                    name
                    for name in groups
                    if (is_any(name) if names == "any" else is_group(name, of_groups))
                ]

    def admits(self, user: str, groups: Sequence[str]) -> bool:
        if self.everyone:
            return True
        if user in self.users:
            return True
        return any(group in self.groups for group in groups)


def allowed(
    queues: Mapping[str, tuple[str, str]],
    queue: str,
    access: str,
    user: str,
    groups: Sequence[str],
) -> bool:
    """Return whether access is granted. `queues` has (submit ACL, admin ACL) by lower-case path."""
    queue = queue.lower()
    if access == "submit" and (queue + ".").startswith("root.@recovery@."):
        return False
    levels = queue.split(".")
    while levels:
        path = ".".join(levels)
        if path in queues:
            submit_acl, admin_acl = queues[path]
            if access == "submit" and AclOracle(submit_acl).admits(user, groups):
                return True
            if AclOracle(admin_acl).admits(user, groups):
                return True
        levels.pop()
    return False


class PolicyOracle:
    """Answers for one partition, caching its results."""

    def __init__(self, queues: Mapping[str, tuple[str, str]]) -> None:
        self._queues = queues
        self._known: dict[tuple[str, str, str, tuple[str, ...]], bool] = {}

    def allows(self, queue: str, access: str, user: str, groups: Sequence[str]) -> bool:
        question = (queue.lower(), access, user, tuple(groups))
        if question not in self._known:
            self._known[question] = allowed(self._queues, *question)
        return self._known[question]

    def forget(self) -> None:
        self._known.clear()

    def needs_groups(self, queue: str, access: str, user: str) -> bool:
        """Return whether an answer depends on the groups of the user."""
        if self.allows(queue, access, user, ()):
            return False
        queue = queue.lower()
        if access == "submit" and (queue + ".").startswith("root.@recovery@."):
            return False
        levels = queue.split(".")
        while levels:
            acls = self._queues.get(".".join(levels), ("", ""))
            if any(AclOracle(text).groups for text in acls[access == "admin" :]):
                return True
            levels.pop()
        return False
