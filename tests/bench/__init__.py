"""`make bench`: what is measured, and against what, in the same run. Ratios, not times: machines differ."""
