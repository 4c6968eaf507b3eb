"""The CPU engine: pair offsets in C++, vectorised across inputs. Its source is in `native/`."""
