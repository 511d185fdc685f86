"""What it costs to take bundles, against the same bytes written with nothing around."""
