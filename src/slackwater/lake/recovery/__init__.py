"""Recovery of lakes with lost or outdated owner state: rebuilds the state from the tables."""
