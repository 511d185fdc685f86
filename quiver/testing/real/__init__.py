"""Real crashes on real file systems: what the model of a disk says is held to what disks do.

====================  ============================================================================
``kernel``            the calls of Linux that the standard library has no word for
``volume``            ext4 or XFS on a loop device in RAM, able to lose its power
``cramped_volume``    one whose new blocks cannot be written: syncs fail as on a dying disk
``watched_disk``      any disk with its acts numbered, and an end before any of them
``folder_tree``       a real folder taken into RAM, to be judged there
``leftover``          what a crash left, and what was known at that moment
``actor``             a process of its own that leads lives and can be killed
``cut``               power cuts at acts, in a row, and at random moments
``kill``              ``kill -9``, several in a row
====================  ============================================================================

Mounting needs root and Linux; ``volume.obstacle`` says what is missing. Killing needs neither.
"""

from quiver.testing.real.actor import Actor
from quiver.testing.real.cramped_volume import CrampedVolume
from quiver.testing.real.cut import cut_at_every_act, cut_at_random_moments, cut_in_a_row
from quiver.testing.real.folder_tree import read_tree
from quiver.testing.real.kernel import Power
from quiver.testing.real.kill import kill_in_a_row
from quiver.testing.real.leftover import Leftover
from quiver.testing.real.volume import Kind, Volume, obstacle
from quiver.testing.real.watched_disk import WatchedDisk

__all__ = [
    "Actor",
    "CrampedVolume",
    "Kind",
    "Leftover",
    "Power",
    "Volume",
    "WatchedDisk",
    "cut_at_every_act",
    "cut_at_random_moments",
    "cut_in_a_row",
    "kill_in_a_row",
    "obstacle",
    "read_tree",
]
