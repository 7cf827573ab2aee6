"""What DeepSpeed prints beside rates: timers, communication summaries."""
