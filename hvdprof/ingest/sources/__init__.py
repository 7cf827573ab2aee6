"""What a user names, as regular files: listed, copied from streams, unpacked from archives."""
