"""What a store in the middle of a job costs that job."""
