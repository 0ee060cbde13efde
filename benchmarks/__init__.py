"""Side by side with what people use instead; `python -m benchmarks` runs them."""
