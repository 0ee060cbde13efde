"""Every sentence: what a call did, what changed, in words a learner can read aloud."""
