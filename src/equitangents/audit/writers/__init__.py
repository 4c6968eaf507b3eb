"""Writing a report down as a few lines of text, and as Markdown."""
