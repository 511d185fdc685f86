"""The verbs of ``quiver queue``, one in each file.

========  ==================================================================
``desk``  how they open a bucket
``gc``    deletes what nobody points to
========  ==================================================================
"""

__all__: list[str] = []
