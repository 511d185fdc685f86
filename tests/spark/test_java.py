"""Which Java is chosen from which environment, and the launcher that slim ones need."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from quiver.errors import ConfigError, MissingError, StorageError
from quiver.spark.java import cache_folder, find_java, parse_version, write_launcher

FULL = "java.base jdk.incubator.vector"
SLIM = "java.base"


def make_java(home: Path, version: str, *, modules: str | None = FULL) -> str:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f"echo 'openjdk version \"{version}\" 2025-01-01' >&2\n"
        f"echo '    java.home = {home}' >&2\n"
    )
    program.chmod(0o755)
    if modules is not None:
        release = f'JAVA_VERSION="{version}"\nMODULES="{modules}"\nOS_NAME="Linux"\n'
        (home / "release").write_text(release)
    return str(home)


def never() -> str | None:
    raise AssertionError("the bundled Java was asked for")


def nothing() -> str | None:
    return None


@pytest.mark.parametrize(
    "text,version",
    [
        ("17.0.15", 17),
        ("25", 25),
        ("25.0.3+9-LTS", 25),
        ("21-ea", 21),
        ("1.8.0_392", 8),
        ("11.0.2", 11),
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment (build 17)', 17),
        ('java version "1.8.0_392"', 8),
        ('Picked up _JAVA_OPTIONS: -Xmx1g\nopenjdk version "25" 2025-09-16', 25),
        ("", None),
        ("command not found", None),
    ],
)
def test_versions_are_read_as_runtimes_write_them(text: str, version: int | None) -> None:
    assert parse_version(text) == version


def test_java_home_is_first_and_the_path_is_not_looked_at(tmp_path: Path) -> None:
    chosen = make_java(tmp_path / "chosen", "21.0.1")
    other = make_java(tmp_path / "other", "25")
    java = find_java({"JAVA_HOME": chosen, "PATH": f"{other}/bin"}, bundled=never)
    assert (java.home, java.version, java.needs_launcher) == (chosen, 21, False)


def test_a_java_home_that_is_no_java_is_an_error_and_not_passed_over(tmp_path: Path) -> None:
    other = make_java(tmp_path / "other", "25")
    environment = {"JAVA_HOME": str(tmp_path / "gone"), "PATH": f"{other}/bin"}
    with pytest.raises(ConfigError, match=r"no working Java in .*gone"):
        find_java(environment, bundled=never)


def test_a_java_home_that_is_too_old_is_an_error(tmp_path: Path) -> None:
    old = make_java(tmp_path / "old", "1.8.0_392", modules=None)
    with pytest.raises(ConfigError, match=r"Java 8 in .*old is older than 17"):
        find_java({"JAVA_HOME": old}, bundled=never)


def test_java_on_the_path_is_followed_through_links_to_its_folder(tmp_path: Path) -> None:
    home = make_java(tmp_path / "jdk", "17.0.15")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(f"{home}/bin/java")
    java = find_java({"PATH": str(tmp_path / "bin")}, bundled=never)
    assert (java.home, java.version) == (home, 17)


def test_a_script_on_the_path_is_asked_for_the_folder_of_the_java_that_it_picks(
    tmp_path: Path,
) -> None:
    home = make_java(tmp_path / "jdk", "21.0.1")
    shims = tmp_path / "manager" / "shims"
    shims.mkdir(parents=True)
    shutil.copy(f"{home}/bin/java", shims / "java")
    java = find_java({"PATH": str(shims)}, bundled=never)
    assert (java.home, java.version) == (home, 21)


def test_an_old_java_on_the_path_is_passed_over_for_the_bundled_one(tmp_path: Path) -> None:
    old = make_java(tmp_path / "old", "11.0.2")
    bundled = make_java(tmp_path / "bundled", "25.0.2", modules=SLIM)
    java = find_java({"PATH": f"{old}/bin"}, bundled=lambda: bundled)
    assert (java.home, java.version, java.needs_launcher) == (bundled, 25, True)


def test_a_slim_java_needs_the_launcher_wherever_it_comes_from(tmp_path: Path) -> None:
    slim = make_java(tmp_path / "slim", "25", modules=SLIM)
    assert find_java({"JAVA_HOME": slim}, bundled=never).needs_launcher
    assert find_java({"PATH": f"{slim}/bin"}, bundled=never).needs_launcher


def test_a_java_that_does_not_list_its_modules_is_slim_only_if_it_is_the_bundled_one(
    tmp_path: Path,
) -> None:
    home = make_java(tmp_path / "jdk", "17.0.1", modules=None)
    assert not find_java({"JAVA_HOME": home}, bundled=never).needs_launcher
    assert find_java({}, bundled=lambda: home).needs_launcher


def test_without_any_java_the_error_says_what_to_install() -> None:
    with pytest.raises(MissingError, match=r"pip install 'quiver-store\[spark\]'"):
        find_java({}, bundled=nothing)


def test_the_launcher_drops_one_argument_and_keeps_all_others_as_they_are(tmp_path: Path) -> None:
    program = tmp_path / "it's here" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nfor argument do printf "%s\\0" "$argument"; done\n')
    program.chmod(0o755)
    home = write_launcher(str(tmp_path / "cache"), str(program))

    kept = ["-cp", "a b", "", "--add-modules=other", "*", 'say "x"', "$HOME"]
    done = subprocess.run(
        [f"{home}/bin/java", *kept[:3], "--add-modules=jdk.incubator.vector", *kept[3:]],
        capture_output=True,
        check=True,
        text=True,
    )

    assert done.stdout.split("\0")[:-1] == kept


def test_the_launcher_is_executable_and_written_once(tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    home = write_launcher(cache, "/opt/java/bin/java")
    program = Path(home, "bin", "java")
    before = program.stat()
    assert stat.S_IMODE(before.st_mode) == 0o755

    assert write_launcher(cache, "/opt/java/bin/java") == home
    assert program.stat().st_ino == before.st_ino
    assert write_launcher(cache, "/opt/other/bin/java") != home


def _overwrite(program: Path) -> None:
    program.write_text("#!/bin/sh\necho gotcha\n")


def _cut(program: Path) -> None:
    program.write_bytes(program.read_bytes()[:-5])


def _forbid(program: Path) -> None:
    program.chmod(0o600)


@pytest.mark.parametrize("harm", [_overwrite, _cut, _forbid, Path.unlink])
def test_a_launcher_that_was_changed_is_written_anew(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    program = Path(write_launcher(str(tmp_path / "cache"), "/opt/java/bin/java"), "bin", "java")
    intact = program.read_bytes()
    harm(program)

    write_launcher(str(tmp_path / "cache"), "/opt/java/bin/java")

    assert program.read_bytes() == intact
    assert os.access(program, os.X_OK)
    assert [entry.name for entry in program.parent.iterdir()] == ["java"]


def test_a_cache_that_others_can_write_is_refused(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    with pytest.raises(StorageError, match="another user"):
        write_launcher(str(cache), "/opt/java/bin/java")


def test_the_cache_is_where_the_environment_says(tmp_path: Path) -> None:
    here = str(tmp_path)
    assert cache_folder({"XDG_CACHE_HOME": f"{here}/xdg", "HOME": here}) == f"{here}/xdg/quiver"
    assert cache_folder({"HOME": here}) == f"{here}/.cache/quiver"
    mine = f"{here}/quiver-{os.getuid()}"
    assert cache_folder({"TMPDIR": here}) == mine
    assert cache_folder({"XDG_CACHE_HOME": "relative", "TMPDIR": here}) == mine


def test_a_home_that_cannot_be_written_gives_way_to_the_temporary_folder(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file, not a folder")
    environment = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path)}
    assert cache_folder(environment) == str(tmp_path / f"quiver-{os.getuid()}")
