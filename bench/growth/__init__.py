"""What grows with the backlog, with the number of subscribers, and with time; what does not."""
