"""The authors' own forms of the baselines, quirks included; they reproduce their numbers."""
