"""A subscriber as a process: prints each bundle that it has acked, until it is killed."""

from __future__ import annotations

import sys

from quiver.chain.cluster import connect


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    place, name, partition, count = sys.argv[1:]
    subscription = connect(place).subscribe(name, partition)
    say("begun")
    for _ in range(int(count)):
        handle = subscription.next(90.0)
        number = handle["events"]["n"][0].as_py()
        say(f"got {number}")
        handle.ack()
        say(f"acked {number}")
    sys.stdin.read()


if __name__ == "__main__":
    main()
