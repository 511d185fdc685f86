"""Each place of metadata keeps what every one has to keep."""

from __future__ import annotations

import itertools

import pytest
from etcd_kit import etcd_missing
from seaweed import seaweed_missing

from quiver.chain.metadata import BucketMetadata, EtcdMetadata, open_metadata
from quiver.ship.objects import FolderBucket, MemoryBucket
from quiver.testing.metadata_conformance import MetadataConformance

COUNT = itertools.count()


class TestMemory(MetadataConformance):
    many = 50

    @pytest.fixture
    def opened(self):
        bucket = MemoryBucket()
        return lambda path="": BucketMetadata(bucket.at(path))


class TestFolder(MetadataConformance):
    many = 50  # It has no pages.

    @pytest.fixture
    def opened(self, tmp_path):
        return lambda path="": BucketMetadata(FolderBucket(str(tmp_path), path))


@pytest.mark.skipif(bool(etcd_missing()), reason=etcd_missing() or "-")
class TestEtcd(MetadataConformance):
    @pytest.fixture
    def opened(self, etcd):
        start = f"t{next(COUNT)}"
        return lambda path="": EtcdMetadata([("127.0.0.1", etcd.port)], f"{start}/{path}")


@pytest.mark.skipif(bool(seaweed_missing()), reason=seaweed_missing() or "-")
class TestSeaweed(MetadataConformance):
    many = 50  # Its pages are those of the bucket, which has tests of its own.

    @pytest.fixture
    def opened(self, seaweed):
        start = f"{seaweed.url}/m{next(COUNT)}"
        return lambda path="": open_metadata(f"{start}/{path}", options=seaweed.options)
