"""What we claim about speed and memory, side by side with its rival in one run: `python -m benchmarks`."""
