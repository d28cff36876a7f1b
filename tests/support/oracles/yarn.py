"""A second evaluator of YARN ACLs and queue access, slow and obvious on purpose.

Like `queue_access.py`, it works on texts and shares nothing with the product.
"""

from collections.abc import Mapping, Sequence


class YarnAclOracle:
    """An ACL text, character by character."""

    def __init__(self, text: str, semantics: str) -> None:
        self.everyone = text == "*"
        users: list[str] = []
        groups: list[str] = []
        entry = ""
        spaces = 0
        for character in text + ",":
            if character == " " and (spaces == 0 or semantics == "documented"):
                (users if spaces == 0 else groups).append(entry)
                entry = ""
                spaces += 1
                if spaces == 2:
                    break
            elif character == "," or (character == "\n" and semantics == "hadoop"):
                (users if spaces == 0 else groups).append(entry)
                entry = ""
            else:
                entry += character
        if semantics == "hadoop":
            before, _, after = text.partition(" ")
            for part in (before, after):
                if "".join(part.split(" ")).strip("".join(map(chr, range(33)))) == "*":
                    self.everyone = self.everyone or part.count("*") == 1
            users = [trim(name) for name in users]
            groups = [trim(name) for name in groups]
        proxies = [name[1:] for name in users if name[:1] == "~" and semantics == "hadoop"]
        self.proxies = [] if self.everyone else [name for name in proxies if name]
        self.users = [name for name in users if self.counts(name)]
        self.groups = [name for name in groups if name and self.is_name(name, semantics)]
        self.users = [name for name in self.users if self.is_name(name, semantics)]
        if self.everyone:
            self.users = self.groups = []

    @staticmethod
    def counts(name: str) -> bool:
        return name != "" and not name.startswith("~")

    @staticmethod
    def is_name(name: str, semantics: str) -> bool:
        if semantics == "hadoop":
            return True
        return not name.startswith("~") and not any(letter.isspace() for letter in name)

    def admits(self, user: str, groups: Sequence[str], real_user: str = "") -> bool:
        named = user in self.users or real_user in self.proxies
        return self.everyone or named or any(name in self.groups for name in groups)


def trim(text: str) -> str:
    while text and ord(text[0]) <= 32:
        text = text[1:]
    while text and ord(text[-1]) <= 32:
        text = text[:-1]
    return text


def allowed(
    queues: Mapping[str, tuple[str, str]],
    queue: str,
    access: str,
    user: str,
    groups: Sequence[str],
    *,
    semantics: str = "documented",
    admins: str = " ",
    real_user: str = "",
) -> bool:
    """Return whether access is granted while ACLs are enforced. `queues` maps full paths to both
    ACLs.
    """
    if semantics == "documented" and YarnAclOracle(admins, semantics).admits(
        user, groups, real_user
    ):
        return True
    levels = queue.split(".")
    while levels:
        submit, admin = queues.get(".".join(levels), (" ", " "))
        if access == "submit" and YarnAclOracle(submit, semantics).admits(user, groups, real_user):
            return True
        if YarnAclOracle(admin, semantics).admits(user, groups, real_user):
            return True
        levels.pop()
    return False
