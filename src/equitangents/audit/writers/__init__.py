"""Writing a report down: a few lines of text, Markdown, one HTML file."""
