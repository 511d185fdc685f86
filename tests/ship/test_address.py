"""Which bucket an address names, and which options it takes."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from quiver.errors import ConfigError
from quiver.ship.objects import (
    FolderBucket,
    MemoryBucket,
    RemoteBucket,
    is_remote,
    open_bucket,
)
from quiver.ship.objects.options import CLIENT, KINDS, RETRY, RemoteSettings, read_options

KEYS = {"access_key_id": "AKID", "secret_access_key": "s3cret"}
AZURE = {"account_name": "acc", "account_key": "a2V5"}
ANYBODY = {"anonymous": True}


@pytest.mark.parametrize(
    "url, options, place, base",
    [
        ("s3://bucket", KEYS, "s3://bucket", ""),
        ("s3://bucket/", KEYS, "s3://bucket", ""),
        ("s3a://my.bucket-1/path/to/queue/", KEYS, "s3://my.bucket-1/path/to/queue", None),
        ("S3://bucket/a%20b", KEYS, "s3://bucket/a b", "a b/"),
        ("az://box/q", AZURE, "az://box/q", "q/"),
        ("abfss://box@acc.dfs.core.windows.net/q/r", {"key": "a2V5"}, "az://box/q/r", "q/r/"),
        ("gs://bucket/q", ANYBODY, "gs://bucket/q", "q/"),
        ("gcs://bucket/q", ANYBODY, "gs://bucket/q", "q/"),
    ],
)
def test_a_remote_address(url, options, place, base):
    pytest.importorskip("obstore")
    bucket = open_bucket(url, options=options)
    assert isinstance(bucket, RemoteBucket)
    assert is_remote(url)
    assert bucket.place == place
    assert bucket.base == (base if base is not None else "path/to/queue/")
    again = pickle.loads(pickle.dumps(bucket))
    assert (again.place, again.base) == (bucket.place, bucket.base)


def test_an_address_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for url in (f"file://{tmp_path}/a%20b", f"file://localhost{tmp_path}/a b", "a b"):
        bucket = open_bucket(url)
        assert isinstance(bucket, FolderBucket)
        assert bucket.place == f"{tmp_path}/a b"
        assert not is_remote(url)
    assert open_bucket("odd:name").place == f"{tmp_path}/odd:name"
    memory = open_bucket("memory:ingest")
    assert isinstance(memory, MemoryBucket)
    assert memory.base == "ingest/"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url, said",
    [
        ("s4://bucket/q", "did you mean s3"),
        ("ftp://host/q", "known: s3"),
        ("s3://", "no name of a bucket"),
        ("s3:///q", "no name of a bucket"),
        ("s3://../q", "no name of a bucket"),
        ("s3://b/a/../q", "has . or .."),
        ("s3://AKID:s3cret@bucket/q", "may have no user"),
        ("s3://bucket/q?sig=s3cret", "no query"),
        ("s3://bucket/q#s3cret", "no query"),
        ("az://box@acc/q", "may have no user"),
        ("file://host/q", "names no folder here"),
        ("s3://[bucket/q", "no URL"),
    ],
)
def test_a_bad_address_is_refused_and_shows_no_secret(url, said):
    with pytest.raises(ValueError) as refused:
        open_bucket(url, options=None)
    assert said in str(refused.value)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    "kind, options, said",
    [
        ("s3", {"secret_acces_key": "s3cret"}, "did you mean secret_access_key"),
        ("s3", {"wholly_unknown_": "s3cret"}, "known: "),
        ("s3", {"access_key_id": "s3cret"}, "together or not at all"),
        ("s3", {"region": "a", "aws_region": "b"}, "are one option"),
        ("s3", {"endpoint": "http://127.0.0.1:1"}, "set allow_http"),
        ("s3", {"endpoint": "https://u:s3cret@host"}, "no user, query or fragment"),
        ("s3", {"endpoint": "host:1"}, "no address of a server"),
        ("s3", {"timeout": "soon"}, "timeout"),
        ("s3", {"timeout": 0}, "no time at all"),
        ("s3", {"max_retries": -1}, "from 0 to 100"),
        ("s3", {"max_retries": "many"}, "from 0 to 100"),
        ("s3", {"secret_access_key": ["s3cret"]}, "list is no text"),
        ("az", {"acount_name": "x"}, "did you mean account_name"),
        ("gs", {"service_acount": "x"}, "did you mean service_account"),
    ],
)
def test_a_bad_option_is_refused_and_shows_no_secret(kind, options, said):
    with pytest.raises(ConfigError) as refused:
        read_options(kind, options, {})
    assert said in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_options_by_their_many_names_and_the_environment_below_them():
    environ = {
        "AWS_REGION": "there",
        "AWS_ENDPOINT_URL": "https://host",
        "AWS_ACCESS_KEY_ID": "E",
        "AWS_SECRET_ACCESS_KEY": "E2",
        "AWS_SESSION_TOKEN": "E3",
        "OTHER": "x",
    }
    said = read_options("s3", {}, environ)
    assert said == {
        "region": "there",
        "endpoint": "https://host",
        "access_key_id": "E",
        "secret_access_key": "E2",
        "session_token": "E3",
    }
    # Half of one's credentials and half of another's open nothing.
    given = {"AWS-Access-Key-Id": "A", "secret_access_key": "B", "virtual_hosted_style": True}
    assert read_options("s3", given, environ) == {
        "region": "there",
        "endpoint": "https://host",
        "access_key_id": "A",
        "secret_access_key": "B",
        "virtual_hosted_style_request": "true",
    }
    azure = {"AZURE_STORAGE_ACCOUNT_NAME": "acc", "AZURE_STORAGE_ACCOUNT_KEY": "k"}
    assert read_options("az", {"azure_storage_sas_token": "t"}, azure) == {
        "account_name": "acc",
        "sas_token": "t",
    }


def test_options_have_no_meaning_for_a_folder(tmp_path):
    with pytest.raises(ConfigError, match="no meaning"):
        open_bucket(str(tmp_path), options={"region": "x"})


def test_the_account_of_the_address_is_the_one_that_counts():
    pytest.importorskip("obstore")
    url = "abfss://box@acc.dfs.core.windows.net/q"
    with pytest.raises(ConfigError, match="the address says acc"):
        open_bucket(url, options={"account_name": "other", "key": "a2V5"})
    environ = {"AZURE_STORAGE_ACCOUNT_NAME": "other"}
    bucket = open_bucket(url, options={"key": "a2V5"}, environ=environ)
    assert bucket._settings.store["account_name"] == "acc"


def test_what_obstore_refuses_shows_no_secret():
    pytest.importorskip("obstore")
    with pytest.raises(ConfigError, match="cannot be opened") as refused:
        open_bucket("az://box", options={"account_name": "a", "account_key": "s3cret!!"})
    assert "s3cret" not in str(refused.value)
    assert refused.value.__suppress_context__


WITHOUT = """
import sys
sys.modules["obstore"] = None
from quiver.errors import ConfigError
from quiver.ship.objects import open_bucket, probe
bucket = open_bucket(sys.argv[1])
probe(bucket, known=False)
bucket.put("x", b"1")
try:
    open_bucket("s3://bucket/q", options={"anonymous": True})
except ConfigError as error:
    print(error)
"""


def test_a_folder_needs_no_obstore_and_a_remote_store_says_what_it_needs(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "pip install 'quiver-store[ship]'" in done.stdout
    assert (tmp_path / "x").read_bytes() == b"1"


FORKED = """
import os, signal, sys
from quiver.errors import ClosedError
from quiver.ship.objects import open_bucket
options = {"endpoint": "http://127.0.0.1:1", "allow_http": True, "anonymous": True}
bucket = open_bucket("s3://bucket/q", options={**options, "max_retries": 0})
def ask():
    signal.alarm(20)  # It must not wait for ever.
    try:
        bucket.get("x")
    except OSError as error:
        print(type(error).__name__, flush=True)
def fork():
    child = os.fork()
    if child and (code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])):
        sys.exit(code)
    return not child
if fork():
    ask()  # Its parent has opened a bucket, and not used it.
    os._exit(0)
ask()
if not fork():
    sys.exit()
signal.alarm(20)
for act in (lambda: bucket.get("x"), lambda: open_bucket("s3://bucket", options=options)):
    try:
        act()
    except ClosedError as error:
        print(error, flush=True)
"""


def test_a_forked_child_is_told_instead_of_waiting_for_ever():
    pytest.importorskip("obstore")
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, check=True, timeout=60
    )
    unused, first, *others = done.stdout.splitlines()
    assert unused == first == "UnclearError"
    assert len(others) == 2
    assert all("forked" in line for line in others)


@pytest.mark.parametrize(
    "kind, option",
    [
        (kind, option)
        for kind, table in KINDS.items()
        for option in sorted({*table.options, *CLIENT, *RETRY})
    ],
)
def test_obstore_knows_each_option_that_we_know(kind, option):
    stores = pytest.importorskip("obstore.store")
    unknown = "is not valid for store"
    given = {"access_key_id": "a", "secret_access_key": "b"} if kind == "s3" else {}
    values = {**given, "account_name": "a"} if kind == "az" else given
    value = {"max_retries": "1"}.get(option, "10s" if "time" in option else "https://host")
    said = ""
    try:
        RemoteBucket(RemoteSettings(kind, "bucket", "", {**values, option: value}))
    except ConfigError as error:  # It may well dislike the value.
        said = str(error)
    assert unknown not in said
    with pytest.raises(Exception, match=unknown):
        stores.S3Store("bucket", no_such_option="x")
