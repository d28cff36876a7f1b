"""Whether a page with hostile names did nothing but show them."""

from tests.support import xss_corpus
from tests.support.browser import Visit

OWN_HANDLERS = """\
() => [...document.querySelectorAll('*')].flatMap(each => [...each.attributes]
    .filter(({name, value}) => name.startsWith('on') || name.startsWith('hx-on') ||
        (name !== 'value' && /^\\s*javascript:/i.test(value)) ||
        name === 'srcdoc' || name === 'style')
    .map(({name, value}) => `${each.tagName} ${name}=${value}`))
"""
"""Returns the attributes of a page that run a script or carry a style."""


def assert_harmless(visit: Visit) -> None:
    page = visit.page
    assert (visit.dialogs, visit.elsewhere) == ([], [])
    # The status of a page that does not exist is the only thing that the console notes.
    assert [error for error in visit.errors if "Failed to load resource" not in error] == []
    assert page.evaluate(OWN_HANDLERS) == []
    scripts = page.eval_on_selector_all("script", "all => all.map(each => each.outerHTML)")
    assert len(scripts) == 1
    assert page.locator("iframe, object, embed, base, svg, img").count() == 0
    assert page.eval_on_selector_all("meta[http-equiv]", "all => all.length") == 0
    assert "49" not in page.title()
    text = page.inner_text("body")
    assert not set(xss_corpus.INVISIBLE) & set(text)
