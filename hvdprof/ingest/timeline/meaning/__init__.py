"""What the columns mean: uses of tensors, fused executions, ticks, steps, facts."""
