"""What an audit found, and the ways to write it down."""
