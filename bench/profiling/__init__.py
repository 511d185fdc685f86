"""Where the time of the rows that miss their goal goes: flame graphs, and a cause for each."""
