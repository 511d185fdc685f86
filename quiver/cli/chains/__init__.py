"""The verbs of ``quiver chain``, one file each, and what they share."""

__all__: list[str] = []
