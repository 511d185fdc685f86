"""What is asked of an object store, and the stores that give it."""
