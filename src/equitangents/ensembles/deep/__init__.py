"""Ensembles of finite networks as estimators."""
