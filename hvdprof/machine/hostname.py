"""What Horovod needs of the network before it can start."""

import socket


def hostname_resolves() -> bool:
    """Whether this machine can look up its own name.

    Gloo looks it up in ``hvd.init()`` and ends with a segmentation fault when it cannot.
    """
    try:
        socket.gethostbyname(socket.gethostname())
    except OSError:
        return False
    return True
