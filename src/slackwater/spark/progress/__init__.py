"""What long work tells meanwhile: a line on a terminal or below a cell, with the tasks that Spark says are done."""
