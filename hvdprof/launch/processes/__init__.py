"""The processes of one launch: started, watched, interrupted, ended."""
