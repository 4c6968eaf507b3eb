"""One contender a file: `TITLE`, `make(problem)`, and, where not every problem has it, `unavailable(problem)`."""
