"""What is raised when a node falls silent."""

from __future__ import annotations

from quiver.errors import RemoteError

__all__ = ["SilentError"]


class SilentError(RemoteError):
    """The node ``path`` was not heard for too long; it may be there all the same."""
