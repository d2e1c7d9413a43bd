"""The local internet that downloads are tested in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from tests.support.network import Certificates, LocalInternet, new_certificates

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Made once, since keys take time."""
    directory: Path = tmp_path_factory.mktemp("certificates")
    return new_certificates(directory)


@pytest.fixture
async def internet(certificates: Certificates) -> AsyncIterator[LocalInternet]:
    """A running one, with nothing inside visited."""
    async with LocalInternet(certificates).running() as running:
        yield running
