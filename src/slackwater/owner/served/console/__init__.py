"""Pages of a served owner for people: the console, which looks at it and changes nothing, and its interface."""
