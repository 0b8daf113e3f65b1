"""Client of another catalog: the Delta API of a Unity Catalog as a commit owner."""
