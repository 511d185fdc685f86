"""Processors: what is changed or taken out of batches on their way, column by column.

==============  ==================================================================================
``tables``      which table of a bundle hangs from which; rows taken out of all of them
``matching``    which rows a rule is about
``ids``         ids for rows that have none
``attributes``  attributes put in, changed, renamed, taken out
``filter``      items taken out
==============  ==================================================================================
"""

from quiver.otel.pipeline.processors.attributes import Attributes
from quiver.otel.pipeline.processors.filter import Filter

__all__ = ["Attributes", "Filter"]
