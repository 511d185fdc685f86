"""The verbs of ``quiver config``, one in each file; neither opens a store."""

__all__: list[str] = []
