"""The CPU engine: fibres in C++, vectorised across inputs. Its source is in `native/`."""
