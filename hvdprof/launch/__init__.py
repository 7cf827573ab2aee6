"""Starting a run: the design, the argument lists, the processes, the sweep."""
