"""`python -m tools.results FOLDER`: the finished run of a study as pages and small files of the documentation."""
