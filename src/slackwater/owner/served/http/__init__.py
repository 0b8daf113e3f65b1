"""HTTP as the server speaks it: connections, bodies, limits and the access log."""
