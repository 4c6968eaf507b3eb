"""What every study is made of: settings, folder, stages, claims, tables, figures and the runner."""
