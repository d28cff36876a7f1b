"""Which patterns Go compiles; every line was checked against Go's regexp package."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuegate_server.formats.registry import load_policy
from queuegate_server.formats.yunikorn import placement
from queuegate_server.formats.yunikorn.go_regexp import BadPattern, compile_pattern


def compiles(pattern: str) -> bool:
    try:
        compile_pattern(pattern)
    except BadPattern:
        return False
    return True


@pytest.mark.parametrize(
    "pattern",
    [
        *("", "a", "a*", "a+?", "a{2}", "a{2,}", "a{2,3}?", "a{0}", "a{,3}", "a{", "{a}", "a{02}"),
        *("a{1000}", "(a)", "(?:a)", "(?i)a", "(?i-s:a)", "(?-s:a)", "(?)a", "(?P<n>a)(?<n>a)"),
        *("a|b", "|", "()", "a(?i)*", "a*(?i)*", "^*", "$+", "\\b?", "()*", "(|a)*"),
        *("[a]", "[^a]", "[]a]", "[^]a]", "[a-]", "[-a]", "[a-z]", "[\\d-z]", "[[:alpha:]]"),
        *("[[:^alpha:]]", "[[:]", "[a[:b]", "[\\]]", "[\\pL]", "[é-ü]"),
        *("\\d\\D\\s\\S\\w\\W", "\\A\\b\\B\\z", "\\pL", "\\PL", "\\p{Greek}", "\\p{^Lu}"),
        *("\\a\\f\\n\\r\\t\\v", "\\.\\*\\_\\ \\-", "\\x41", "\\x{10FFFF}", "\\0", "\\07", "\\12"),
        *("\\Qa*b\\E", "\\Q(", "\\Qa\\E*", "a\\Q\\E*", "dev.*", "^robot-.*$"),
        *("\\Q\\C\\E", "[{1000000000}]", "\\{1000000000}", "a{x1000000000}"),
    ],
)
def test_compiles(pattern: str) -> None:
    assert compiles(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *("*", "+a", "?", "{2}", "a**", "a+*", "a*??", "a{2}{3}", "a{2}*", "a{1001}", "a{3,2}"),
        *("a{1,99999999999}", "(", ")", "(a", "a)", "(a))", "(*a)", "a|*", "(?", "(?a)", "(?i"),
        *("(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(?#a)", "(?>a)", "(?i-)", "(?--i)", "(?P=n)"),
        *("(?P<>a)", "(?P<n a>b)", "(?P<n", "(?i)*"),
        *("[", "[a", "[]", "[^", "[z-a]", "[a-\\d]", "[[:foo:]]", "[\\b]", "[\\Qa\\E]", "[a-"),
        *("\\", "a\\", "\\1", "\\8", "\\y", "\\Z", "\\C", "\\E", "\\é", "\\x", "\\x4", "\\x{}"),
        *("\\x{110000}", "\\p", "\\pA", "\\p{}", "\\p{L", "\\p{2}", "\\G", "\\k"),
    ],
)
def test_does_not_compile(pattern: str) -> None:
    assert not compiles(pattern)


def test_long_patterns_take_little_time() -> None:
    assert not compiles("[" * 100_000)
    # RE2 itself looks for the end of each of these classes: their square.
    assert not compiles("[:" * 20_000)
    assert compiles("(" * 50_000 + ")" * 50_000)


@given(st.text(st.sampled_from("ab(){}[]|*+?\\^$.,:-<>=!PiQEdxp0129 é"), max_size=15))
def test_nothing_makes_it_raise(pattern: str) -> None:
    assert compiles(pattern) in {True, False}


def test_a_regexp_is_accepted_with_a_warning_where_re2_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = (
        "partitions: [{queues: [{name: root}], "
        "placementrules: [{name: user, filter: {users: [%s]}}]}]"
    )
    assert load_policy("yunikorn", (text % "'dev(.*'").encode(), "f").partitions == {}
    monkeypatch.setattr(placement, "go_regexp", None)
    loaded = load_policy("yunikorn", (text % "'dev(.*'").encode(), "f")
    (diagnostic,) = loaded.diagnostics
    assert loaded.partitions
    assert 'warning: the regular expression "dev(.*" was not checked' in str(diagnostic)
    assert load_policy("yunikorn", (text % "'!'").encode(), "f").partitions == {}


def test_a_regexp_that_would_take_a_minute_is_not_checked() -> None:
    text = (
        "partitions: [{queues: [{name: root}], "
        "placementrules: [{name: user, filter: {users: [%s]}}]}]"
    )
    loaded = load_policy("yunikorn", (text % f"'{'[:' * 100_000}'").encode(), "f")
    (diagnostic,) = loaded.diagnostics
    assert loaded.partitions
    assert "is too long to be checked (shorten it to 10000 characters)" in str(diagnostic)
