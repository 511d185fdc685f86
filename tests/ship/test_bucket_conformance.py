"""Each store keeps what every store has to keep."""

from __future__ import annotations

import itertools

import pytest
from azurite import azurite_missing
from seaweed import seaweed_missing

from quiver.ship.objects import FolderBucket, MemoryBucket, open_bucket
from quiver.testing.bucket_conformance import BucketConformance

COUNT = itertools.count()


class TestMemory(BucketConformance):
    @pytest.fixture
    def opened(self):
        return MemoryBucket().at


class TestFolder(BucketConformance):
    many = 50  # It has no pages.

    @pytest.fixture
    def opened(self, tmp_path):
        return lambda path="": FolderBucket(str(tmp_path), path)


if azurite_missing():

    def test_azurite_keeps_what_every_store_has_to_keep():
        pytest.skip(azurite_missing())

else:

    class TestAzurite(BucketConformance):
        @pytest.fixture
        def opened(self, azurite):
            start = f"{azurite.url}/t{next(COUNT)}"
            return lambda path="": open_bucket(f"{start}/{path}", options=azurite.options)


@pytest.mark.skipif(bool(seaweed_missing()), reason=seaweed_missing() or "-")
class TestSeaweed(BucketConformance):
    @pytest.fixture
    def opened(self, seaweed, queue_url):
        return lambda path="": open_bucket(f"{queue_url}/{path}", options=seaweed.options)
