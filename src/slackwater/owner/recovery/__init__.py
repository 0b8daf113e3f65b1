"""Recovery of lost or outdated owner state, with fences against former owners."""
