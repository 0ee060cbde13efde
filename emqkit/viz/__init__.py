"""Pictures, sentences and figures of recorded traces: every function here returns a value and displays nothing."""
