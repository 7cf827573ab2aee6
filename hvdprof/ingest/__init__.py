"""Files to tables, one folder per format; other packages import only ``load``."""
