"""The verbs over a real server: a store goes through a bucket and comes back."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner
from shipper_kit import arrived
from store_kit import SLOTS, bundle

import quiver
from quiver.cli.program import program
from quiver.ship.objects import open_bucket


def run(*arguments: object) -> str:
    found = CliRunner().invoke(program, [str(a) for a in arguments], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.stdout


def test_a_store_goes_through_a_bucket_and_comes_back(seaweed, tmp_path: Path) -> None:
    with quiver.open(tmp_path / "store", slots=SLOTS, worker=False) as store:
        for number in range(6):
            store.append(bundle(number))
            if number % 2:
                store.finalize()
    url = f"{seaweed.url}/shipped/{tmp_path.name}"
    reach = [word for pair in seaweed.options.items() for word in ("--option", "=".join(pair))]
    out = run("ship", tmp_path / "store", url, "--subscriber", "s", "--size", "1B", *reach)
    assert "6 bundles in 3 segments and 3 objects" in out
    assert arrived(open_bucket(url, options=seaweed.options)) == list(range(6))
    out = run("restore", url, tmp_path / "back", "--consume", *reach)
    assert "6 bundles in 3 segments" in out
    with quiver.subscribe(tmp_path / "back", "reader", worker=False) as reader:
        found = []
        while (handle := reader.poll()) is not None:
            with handle:
                found.append(handle["events"].column("n")[0].as_py())
    assert found == list(range(6))
    assert arrived(open_bucket(url, options=seaweed.options)) == []
