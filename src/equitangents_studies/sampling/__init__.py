"""The study `sampling`: how to spend a budget of augmented samples."""
