"""Finalized segments of a store into the queue, and back into a store."""
