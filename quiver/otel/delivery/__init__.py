"""The way from a store, or straight from a receiver, to an exporter, and what comes back.

============  ====================================================================================
``policy``    how long to wait after a failure, for one batch and for all of them
``pressure``  whether taking in leaves too little processor time to giving away
``ahead``     batches that are durable and in no segment yet, and what became of them
``delivery``  a subscription -> processors -> an exporter -> ack, later, or dead letter
``straight``  the same without a store: the sender waits for the answer
============  ====================================================================================
"""

from quiver.otel.delivery.delivery import Convert, Delivery
from quiver.otel.delivery.policy import Policy
from quiver.otel.delivery.pressure import Pressure
from quiver.otel.delivery.straight import Straight

__all__ = ["Convert", "Delivery", "Policy", "Pressure", "Straight"]
