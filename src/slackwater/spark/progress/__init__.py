"""Progress of long operations: a line on a terminal or below a notebook cell, with finished Spark tasks."""
