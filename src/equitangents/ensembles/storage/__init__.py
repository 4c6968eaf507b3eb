"""Fitted ensembles and training runs on disk."""
