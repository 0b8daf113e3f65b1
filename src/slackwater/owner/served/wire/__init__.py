"""The calls of a served owner, and what they, their queries and errors hold besides the values of the contract."""
