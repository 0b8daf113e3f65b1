"""Values of the contract as JSON, in requests, answers and errors."""
