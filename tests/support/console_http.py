"""Requests to the console as sent by a browser or a program."""

import http.client
import re
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import unescape
from typing import Final
from urllib.parse import urlencode, urlsplit

FORM: Final = "application/x-www-form-urlencoded"
BEING_READ: Final = "are still being read: reload the page"
"""Part of what a page says until the policy's lines and findings have been read."""
_READING_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Answer:
    """An answer of the console."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def form_token(self) -> str:
        """The token that the page's forms send back."""
        match = re.search(r'name="form_token" value="([0-9a-f]+)"', self.text)
        assert match, self.text
        return match[1]


def words(answer: Answer) -> str:
    """Return the text of a page, with one blank between words."""
    main = answer.text.partition("<main")[2].partition(">")[2]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", main)).split())


_BLOCK: Final = re.compile(
    r"</?(?:caption|dd|div|dl|dt|fieldset|form|h\d|label|li|ol|p|pre|section|table|tbody|thead|tr|ul)\b"
    r"[^>]*>|<br[^>]*>"
)
_AGE: Final = re.compile(r"\b\d+(?:\.\d+)? (?:ms|s|min|h)\b( ago)?")


def lines(answer: Answer) -> list[str]:
    """Return the text of a page as a reader sees it: a line for each block and each row of a table,
    with `…` for times that have passed, and without what forms contain.
    """
    page = re.sub(r"(<textarea[^>]*>)[^<]*", r"\1", answer.text)
    main = page.partition("<main")[2].partition(">")[2].partition("</main>")[0]
    main = re.sub(r"</t[hd]>", "\0", re.sub(r"\s+", " ", main))
    blocks = unescape(re.sub(r"<[^>]*>", "", _BLOCK.sub("\n", main))).split("\n")
    rows = [re.sub(r" ?\0 ?", " | ", " ".join(block.split()).strip("\0 ")) for block in blocks]
    return [_AGE.sub(r"…\1", row) for row in rows if row]


@dataclass
class Browser:
    """Keeps cookies, and sends what a browser sends. `url` is the URL of the console."""

    url: str
    context: ssl.SSLContext | None = None
    cookies: dict[str, str] = field(default_factory=dict)

    def get(self, path: str = "", **headers: str) -> Answer:
        """Get a page, and reload it, as it requests, until the policy's lines have been read."""
        end = time.monotonic() + _READING_SECONDS
        while True:
            answer = self._ask("GET", path, None, headers)
            if BEING_READ not in answer.text or time.monotonic() > end:
                return answer

    def post(self, path: str, form: Mapping[str, str] | bytes, **headers: str) -> Answer:
        """Post a form, or a body. An underscore in a header name stands for a hyphen."""
        body = form if isinstance(form, bytes) else urlencode(form).encode()
        return self._ask("POST", path, body, {"Content_Type": FORM, **headers})

    def sign_in(self, token: str, **form: str) -> Answer:
        fields = {"token": token, "form_token": self.get("sign-in").form_token, **form}
        return self.post("sign-in", fields)

    def _ask(self, method: str, path: str, body: bytes | None, fields: Mapping[str, str]) -> Answer:
        parts = urlsplit(self.url + path if not path.startswith("/") else path)
        host = urlsplit(self.url).netloc
        if self.context is None:
            connection = http.client.HTTPConnection(host, timeout=60)
        else:
            connection = http.client.HTTPSConnection(host, timeout=60, context=self.context)
        headers = {name.replace("_", "-"): value for name, value in fields.items()}
        if self.cookies:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        try:
            connection.request(method, target, body, headers)
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        for cookie in response.headers.get_all("Set-Cookie", []):
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value.strip('"')
            if not self.cookies[name]:
                del self.cookies[name]
        return Answer(response.status, dict(response.headers.items()), text)
