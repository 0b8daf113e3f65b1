"""Times that transactions ask for, and slices of all tables at one time."""
