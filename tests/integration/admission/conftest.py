from collections.abc import Iterator

import pytest

from tests.support.servers.webhook import Webhook, running_webhook


@pytest.fixture(scope="module")
def webhook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    with running_webhook(tmp_path_factory.mktemp("webhook")) as running:
        yield running
