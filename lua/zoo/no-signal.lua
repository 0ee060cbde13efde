-- no-signal, in complete: a child of another queue leaves no signal

-- move: emit
-- The parent is on another slot, out of reach. The signal is left on this one, in the same step as the removal.
-- MISTAKE: nothing is left. The child is gone and its parent will never hear of it.
