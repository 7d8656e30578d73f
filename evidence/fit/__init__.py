"""Programs that fit the records of `catalog/data` on measurements: `python -m advisor.evidence.fit.NAME`."""
