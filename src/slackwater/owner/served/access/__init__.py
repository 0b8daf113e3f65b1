"""Access to a served owner: scopes and grants, and their enforcement for each caller."""
