"""What streams cost."""
