"""What requests, answers, queries and errors hold besides the values of the contract."""
