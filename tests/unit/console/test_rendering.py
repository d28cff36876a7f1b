"""Texts in templates, URLs, and the files that pages load."""

import hashlib
import re
from importlib import resources

import pytest
from jinja2 import UndefinedError

from queuegate_server.console.rendering import MAX_TEXT, environment
from queuegate_server.console.views import url
from tests.support.xss_corpus import INVISIBLE, NAMES

HTMX = "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"
"""Of dist/htmx.min.js in the package htmx.org 2.0.11 of npm."""


def rendered(source: str, **variables: object) -> str:
    return environment().from_string(source).render(**variables)


@pytest.mark.parametrize("name", NAMES)
def test_hostile_texts(name: str) -> None:
    text = rendered("<b title='{{ name }}'>{{ name }}</b>", name=name)
    assert not re.search(r"<(?!/?b)|&(?!\w+;|#)", text)
    assert not set(INVISIBLE) & set(text)
    link = rendered("<a href='{{ url('user', user=name) }}'>", name=name)
    assert re.fullmatch(r"<a href='/console/user\?user=[\w.~%+-]+'>", link)


def test_long_texts_are_cut_and_values_of_fields_are_not() -> None:
    long = "x" * (MAX_TEXT + 1)
    assert rendered("{{ name }}", name=long) == f"{long[:MAX_TEXT]}…"
    assert rendered("{{ name|exact }}", name=long) == long
    assert rendered("{{ name|exact }}", name="a\u202e<") == "a\u202e&lt;"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "< 0.1 ms"), (1.91e-5, "< 0.1 ms"), (0.00312, "3.1 ms"), (1.2345, "1234 ms")],
)
def test_latencies(seconds: float, text: str) -> None:
    assert rendered("{{ name|latency }}|", name=seconds) == f"{text.replace('<', '&lt;')}|"


def test_a_missing_variable_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        rendered("{{ missing }}")


def test_urls() -> None:
    assert url("queues", partition="a b", queue="") == "/console/queues?partition=a+b"
    assert url("") == "/console/"


def test_the_vendored_file_is_the_published_one() -> None:
    folder = resources.files("queuegate_server.console") / "static"
    data = (folder / "htmx-2.0.11.min.js").read_bytes()
    assert hashlib.sha256(data).hexdigest() == HTMX
    assert "Zero-Clause BSD" in (folder / "htmx-2.0.11.LICENSE").read_text(encoding="utf-8")


def test_templates_have_no_inline_scripts_or_styles() -> None:
    folder = resources.files("queuegate_server.console") / "templates"
    for template in folder.iterdir():
        text = template.read_text(encoding="utf-8")
        assert not re.search(r"<style|\sstyle=|\son\w+=|hx-on|\|\s*safe|<script(?! src=)", text)
        assert not re.search(r"https?://", text)


def test_large_numbers_have_narrow_spaces() -> None:
    assert rendered("{{ name|count }}", name=1_204_000) == "1\u202f204\u202f000"
    assert rendered("{{ name|count }}", name=7) == "7"
