"""docs/pictures/apply.svg shows what kubectl prints today."""

from pathlib import Path

import pytest

from tests.e2e.documentation import apply_picture
from tests.e2e.kube.cluster import ApiServer, program
from tests.support.terminals import requires_terminal

pytestmark = [pytest.mark.timeout(300), requires_terminal]


def test_kubectl_shows_the_reason(cluster: ApiServer, tmp_path: Path) -> None:
    if program("kubectl") is None:
        pytest.skip("no kubectl here: `make kube-tools` builds it (Go, 15 min)")
    assert apply_picture.PICTURE.read_text() == apply_picture.draw(cluster, tmp_path), (
        "run `python -m tests.e2e.documentation.apply_picture`"
    )
