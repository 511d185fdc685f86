"""``python -m bench.upsert_kills``: play it, and end with status 0 only if nothing is wrong."""

from __future__ import annotations

import random
import sys
from typing import Any, ClassVar

from bench.kills.campaign import Campaign, tell
from bench.upsert_kills.rounds import Play, plan


class UpsertKills(Campaign):
    """Plays by turns in the server, in a folder, in the server with faults, and in a folder."""

    name: ClassVar[str] = "upsert-kills"
    rounds: ClassVar[int] = 30
    rounds_of_a_play: ClassVar[int] = 25
    begin: ClassVar[str] = (
        "Who writes a collection, who reads and who follows it, and its server keep being killed,\n"
        "and start again; each second play is in a folder, each fourth has faults on the line."
    )
    wrong: ClassVar[str] = "lost, twice, never so, gone too early, left over"
    title: ClassVar[str] = "All who use a collection of upserts, and its server, killed at random"
    right: ClassVar[str] = "all of it was equal"

    def play(self, number: int, folder: str, server: Any, rng: random.Random) -> Play:
        """Make the play of this number."""
        where = None if number % 2 else server
        return Play(folder, where, rng, spoilt=number % 4 == 2, tell=tell)

    def victims(self, play: Any, rounds: int) -> list[str]:
        """Choose who is killed in it."""
        return plan(rounds, play.rng, has_server=play.server is not None)

    def where(self, play: Any) -> str:
        """Say where a play is, behind its number."""
        if play.server is None:
            return ", in a folder"
        return ", in a server" + (", with faults on the line" if play.spoilt else "")

    def told(self) -> list[str]:
        """Tell what came through, a line each."""
        out = self.outcome
        return [
            f"  epochs appended             {out.epochs:>9,}",
            f"  of these by who died of it  {out.unsaid:>9,}  killed before he could say so",
            f"  states read                 {out.reads:>9,}  as of any epoch that can be read",
            f"  of these come to by changes {out.steps:>9,}",
            f"  folds, merges of runs       {out.folded:>9,}  {out.merged:,} merges",
            f"  writers fenced              {out.fenced:>9,}",
        ]

    def text(self, verdict: str) -> str:
        """Give what the page says of how it was done, and how it ended."""
        return (
            "a writer that\nlooks up, appends and tends, one who reads as of any "
            "epoch, one who follows the changes, by turns in SeaweedFS\nand in a folder. The grace "
            "is seconds here, and limits are so low that something is due all the time. A kill\nis "
            "SIGKILL to one of these, at any moment, or while a request is held on its way or an "
            "act of the disk is about to\nbe done; some writers only sleep until another one has "
            f"taken over, and wake up. In every fourth play of {self.rounds_of_a_play}\nkills, 4 % "
            "of all requests are spoilt as well: lost, missed, 500, 503, cut, late. What was read "
            "as of each epoch\nis compared with a dictionary that had done the commands of all "
            f"epochs up to it: {verdict}."
        )


if __name__ == "__main__":
    sys.exit(UpsertKills(__doc__).run())
