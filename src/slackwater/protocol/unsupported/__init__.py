"""Features of other engines that are refused by name."""
