"""Tables as transaction-time relations: every version of every row."""
