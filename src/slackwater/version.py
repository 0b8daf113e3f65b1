"""Version of this package. The wheel, the `engineInfo` of logs and the command line read it from here."""

__version__ = "0.2.0"
