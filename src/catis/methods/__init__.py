"""The methods, one file each. Each is found by name through the entry-point group `catis.methods`."""
