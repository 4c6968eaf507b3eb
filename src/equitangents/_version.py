"""The version, and the format of the files that are written, in one place that everything may import."""

__version__ = "1.0.0"
FORMAT = 5  # of all files: raised when one of them changes; files of another format are refused
