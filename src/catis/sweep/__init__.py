"""Many runs from one plan file, on this machine or on a Ray cluster, into one store."""
