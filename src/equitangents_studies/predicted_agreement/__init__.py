"""The study `predicted-agreement`: orbit same predictions of trained ensembles against those of infinite width."""
