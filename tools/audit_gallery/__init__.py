"""The documentation's gallery of audits: six models, their pages, and two sentences on each."""
