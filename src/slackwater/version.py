"""The version of this package, for the wheel, the `engineInfo` of logs and the command line: said here only."""

__version__ = "0.2.0"
