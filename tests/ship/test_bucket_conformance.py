"""Each store keeps what every store has to keep."""

from __future__ import annotations

import pytest

from quiver.ship.objects import FolderBucket, MemoryBucket, open_bucket
from quiver.testing.bucket_conformance import BucketConformance


class TestMemory(BucketConformance):
    @pytest.fixture
    def opened(self):
        return MemoryBucket().at


class TestFolder(BucketConformance):
    @pytest.fixture
    def opened(self, tmp_path):
        return lambda path="": FolderBucket(str(tmp_path), path)


class TestSeaweed(BucketConformance):
    @pytest.fixture
    def opened(self, seaweed, queue_url):
        return lambda path="": open_bucket(f"{queue_url}/{path}", options=seaweed.options)
