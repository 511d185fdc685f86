"""Certificates of a small authority, made by openssl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

__all__ = ["Authority", "openssl_missing"]

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def openssl_missing() -> str:
    return "" if shutil.which("openssl") else "there is no openssl"


class Authority:
    """Signs certificates; each name is in the subject and among the names."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.ca = folder / "ca.pem"
        self._run(
            *("req", "-x509", *_KEY, "-days", "2", "-subj", "/CN=authority"),
            *("-keyout", str(folder / "ca.key"), "-out", str(self.ca)),
        )

    def signed(self, name: str, *others: str) -> tuple[Path, Path]:
        """Give a certificate and its key, also for other names."""
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        asked, names = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        listed = ",".join(f"DNS:{each}" for each in (name, *others))
        names.write_text(f"subjectAltName={listed},IP:127.0.0.1\n")
        self._run("req", *_KEY, "-subj", f"/CN={name}", "-keyout", str(key), "-out", str(asked))
        self._run(
            *("x509", "-req", "-in", str(asked), "-days", "2", "-CA", str(self.ca)),
            *("-CAkey", str(self._folder / "ca.key"), "-CAcreateserial"),
            *("-extfile", str(names), "-out", str(certificate)),
        )
        return certificate, key

    @staticmethod
    def _run(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)
