"""What acknowledgements cost: written, read at a start, and kept small."""
