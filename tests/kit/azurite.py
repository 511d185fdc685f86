"""A second protocol: Azurite, Microsoft's own imitation of Azure, if this machine has it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import os
import shutil
import subprocess
import time
from contextlib import closing
from email.utils import formatdate
from pathlib import Path
from typing import Final

from seaweed import Pause, free_ports

__all__ = ["AzuriteServer", "azurite_missing"]

CONTAINER: Final = "quiver"
ACCOUNT: Final = "devstoreaccount1"
# Everybody's: it is in the documentation of the emulator, and opens nothing else.
KEY: Final = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
_VERSION: Final = "2021-08-06"
_READY_SECONDS: Final = 60.0


def _program() -> str | None:
    return os.environ.get("QUIVER_AZURITE") or shutil.which("azurite-blob")


def azurite_missing() -> str:
    """Say why there can be no test with Azurite; empty if there can."""
    try:
        import obstore  # noqa: F401
    except ImportError:
        return "obstore is not installed: pip install 'quiver-store[ship]'"
    hint = "npm install azurite, and its azurite-blob in PATH or in QUIVER_AZURITE"
    return "" if _program() else f"there is no Azurite: {hint}"


class AzuriteServer:
    """One server with one container."""

    def __init__(self, folder: Path) -> None:
        program = _program()
        assert program is not None
        (self.port,) = free_ports(1)
        with (folder / "azurite.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(program, "--location", str(folder), "--blobHost", "127.0.0.1"),
                    *("--blobPort", str(self.port), "--skipApiVersionCheck"),
                    *("--disableTelemetry", "--silent"),
                ],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            self._await_ready()
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        return f"az://{CONTAINER}"

    @property
    def options(self) -> dict[str, str]:
        return {
            "account_name": ACCOUNT,
            "account_key": KEY,
            "endpoint": f"http://127.0.0.1:{self.port}/{ACCOUNT}",
            "allow_http": "true",
        }

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _await_ready(self) -> None:
        limit = time.monotonic() + _READY_SECONDS
        pause = Pause(self._process)
        while self._make_container() != http.HTTPStatus.CREATED:
            pause.until(limit)

    def _make_container(self) -> int:
        """Ask for it with a signed request: obstore makes objects alone."""
        path = f"/{ACCOUNT}/{CONTAINER}"
        date = formatdate(usegmt=True)
        signed = (
            "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{_VERSION}\n"
            f"/{ACCOUNT}{path}\nrestype:container"
        )
        digest = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
        headers = {
            "x-ms-date": date,
            "x-ms-version": _VERSION,
            "Content-Length": "0",
            "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}",
        }
        try:
            with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)) as asked:
                asked.request("PUT", f"{path}?restype=container", headers=headers)
                return asked.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
