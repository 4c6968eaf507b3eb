"""The parts of every study: settings, folder, stages, claims, tables, figures and the runner."""
