"""Let subscribers go who are registered, are needed for data, and are never seen again.

Only if ``subscriber.orphan_timeout`` asks for it. The time is that of the monotonic clock, while
this store is open: a clock of the wall that jumps takes nobody's data.
"""

from __future__ import annotations

from quiver.engine.core import Core
from quiver.engine.going import unregister
from quiver.errors import LockedError

__all__ = ["remove_orphans"]


def remove_orphans(core: Core) -> int:
    """Unregister who holds something back and was not seen for too long; give how many.

    Who is paused, or has a subscription in this process, is no orphan.
    """
    timeout = core.config.subscriber.orphan_timeout
    if not timeout:
        return 0
    now, gone = core.clock.monotonic_ns(), []
    live = {subscription.name for subscription in core.subscriptions}
    for name in core.registry.names():
        member = core.registry.member(name)
        if name in live or member.paused or not member.progress.lag:
            core.unseen.pop(name, None)
            continue
        seen_ns, since = core.unseen.get(name, (-1, now))
        if seen_ns != member.last_seen_ns:
            core.unseen[name] = member.last_seen_ns, now
        elif now - since >= timeout:
            gone.append(name)
    removed = 0
    for name in gone:
        try:
            unregister(core, name)
        except LockedError:
            continue  # Somebody is at its inbox, and may be seen in a moment.
        core.events.warning("subscriber.orphan_removed", subscriber=name)
        core.unseen.pop(name, None)
        core.metrics.add("quiver.subscriber.orphans_removed")
        removed += 1
    return removed
