"""What files say of themselves: statistics as JSON, as columns, from footers; bounds by them."""
