"""What the write-ahead log costs, against the same bytes written and read with nothing around."""
