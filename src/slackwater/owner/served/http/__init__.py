"""HTTP layer of the server: connections, bodies, limits and the access log."""
