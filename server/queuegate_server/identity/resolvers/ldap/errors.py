"""What can go wrong between us and a directory. The texts hold no secret."""


class LdapFault(Exception):
    """The directory could not be asked; the text says why, for people."""

    def __init__(self, detail: str, advice: str = "") -> None:
        """Take what happened and, if there is anything, what to do about it."""
        super().__init__(detail)
        self.detail = detail
        self.advice = advice


class ServerFault(LdapFault):
    """One server failed; another one, or a new connection, may answer."""


class Overloaded(LdapFault):
    """There are more requests than this process may have under way."""


class SetupFault(LdapFault):
    """The directory answered, and the answer will stay the same until someone acts."""


class BindRefused(ServerFault):
    """The server does not accept our credentials. Asking again may lock the account."""
