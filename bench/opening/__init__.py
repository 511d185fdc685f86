"""Opening after a kill, the scan of a log, and the reading of warm segments."""
