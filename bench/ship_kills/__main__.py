"""``python -m bench.ship_kills``: play it, and end with status 0 only if all is there once."""

from __future__ import annotations

import random
import sys
from typing import Any, ClassVar

from bench.kills.campaign import Campaign, tell
from bench.ship_kills.rounds import Play, plan


class ShipKills(Campaign):
    """Each second play has faults on the line as well."""

    name: ClassVar[str] = "ship-kills"
    rounds: ClassVar[int] = 15
    rounds_of_a_play: ClassVar[int] = 50
    begin: ClassVar[str] = (
        "Two writers, a shipper, a producer, a consumer, a sweeper and their server of objects\n"
        "keep being killed, and start again; each second play has faults on the line as well."
    )
    wrong: ClassVar[str] = "lost, twice, out of order, deleted too early, left over"
    title: ClassVar[str] = "All who use a queue, and its server, killed at random"
    right: ClassVar[str] = "each is there once"

    def play(self, number: int, folder: str, server: Any, rng: random.Random) -> Play:
        """Make the play of this number."""
        spoilt = bool(number % 2) or self.options.rounds <= self.rounds_of_a_play
        return Play(folder, server, rng, spoilt=spoilt, tell=tell)

    def victims(self, play: Any, rounds: int) -> list[str]:
        """Choose who is killed in it."""
        return plan(rounds, play.rng)

    def told(self) -> list[str]:
        """Tell what came through, a line each."""
        out = self.outcome
        return [
            f"  bundles appended to stores  {out.bundles:>9,}  {out.segments:,} segments",
            f"  records acknowledged        {out.acknowledged:>9,}",
            f"  records in the sink         {out.records:>9,}  the rest was under way in a kill",
            f"  calls that nobody knew of   {out.unclear:>9,}  in the sink once or not at all",
            f"  calls that were made again  {out.made_again:>9,}",
            f"  batches                     {out.batches:>9,}",
            f"  entries that came again     {out.repeats:>9,}  passed over by the consumer",
            f"  batches swept               {out.swept:>9,}",
        ]

    def text(self, verdict: str) -> str:
        """Give what the page says of how it was done, and how it ended."""
        return (
            "two writers of a store, its\nshipper, a producer of records, a "
            "consumer that keeps rows and sequence in one transaction, a sweeper, and "
            "SeaweedFS\nbetween them. What takes minutes, the grace and how late an upload may be, "
            "takes seconds here. A kill is\nSIGKILL to one of these, at any moment or while a "
            "request is held on its way; some consumers only sleep until another\none has taken "
            f"over, and wake up. In every second play of {self.rounds_of_a_play} kills, 4 % of all "
            "requests are spoilt as well: lost,\nmissed, 500, 503, cut, late. In the end what the "
            f"sink holds is compared with what was\nappended and acknowledged: {verdict}."
        )


if __name__ == "__main__":
    sys.exit(ShipKills(__doc__).run())
