"""What people look at: HTML made of values that are always escaped, one theme in light and dark, figures as words."""
