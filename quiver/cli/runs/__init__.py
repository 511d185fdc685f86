"""What ``quiver run`` is made of: processes, pages, and what is told of them."""

__all__: list[str] = []
