"""docs/pictures/apply.svg shows what kubectl prints today."""

from pathlib import Path

import pytest

from tests.e2e.documentation import apply_picture
from tests.support.terminals import requires_terminal

pytestmark = [pytest.mark.timeout(600), requires_terminal]


def test_kubectl_shows_the_reason(tmp_path: Path) -> None:
    picture = apply_picture.draw(tmp_path)
    if picture is None:
        pytest.skip(
            "no etcd, kube-apiserver or kubectl: `make kube-tools` builds them (Go, 15 min)"
        )
    assert apply_picture.PICTURE.read_text() == picture, (
        "run `python -m tests.e2e.documentation.apply_picture`"
    )
