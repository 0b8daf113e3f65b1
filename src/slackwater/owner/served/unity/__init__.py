"""Routes of a served owner as a Unity Catalog, with the values and errors of its API."""
