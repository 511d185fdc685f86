"""What others make of the same work: append bundles durably, be killed, be opened, be read."""
