"""All sentences: what a call did and what changed, in words a learner can read aloud."""
