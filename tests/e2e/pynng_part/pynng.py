"""pynng.py: the part of pynng that client/examples/nng_consumer.py uses, made from Debian's libnng, because Debian has no
package of pynng. nng_consumer_test.py uses it if pynng itself is not installed. Names, options and errors are those of
pynng.
"""
import ctypes

FLAG_ALLOC = 1  # makes nng allocate the received message
ETIMEDOUT = 5


class NNGException(Exception):
    pass


class Timeout(NNGException):
    pass


class _Id(ctypes.Structure):
    """In nng, nng_socket and nng_dialer are structs of this layout."""
    _fields_ = [("id", ctypes.c_uint32)]


_nng = ctypes.CDLL("libnng.so.1")
_nng.nng_strerror.restype = ctypes.c_char_p
_nng.nng_dial.argtypes = [_Id, ctypes.c_char_p, ctypes.POINTER(_Id), ctypes.c_int]
_nng.nng_close.argtypes = [_Id]
_nng.nng_send.argtypes = [_Id, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]
_nng.nng_recv.argtypes = [_Id, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.c_int]
_nng.nng_free.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_nng.nng_socket_set_ms.argtypes = [_Id, ctypes.c_char_p, ctypes.c_int32]
_nng.nng_socket_set_size.argtypes = [_Id, ctypes.c_char_p, ctypes.c_size_t]


def check_err(error):
    if error == ETIMEDOUT:
        raise Timeout(_nng.nng_strerror(error).decode())
    if error:
        raise NNGException(_nng.nng_strerror(error).decode())


class Socket:
    _opener = None

    def __init__(self, *, recv_timeout=None, recv_max_size=None, resend_time=None):
        self._socket = _Id()
        check_err(getattr(_nng, self._opener)(ctypes.byref(self._socket)))
        if recv_timeout is not None:
            self._set_ms(b"recv-timeout", recv_timeout)
        if resend_time is not None:
            self._set_ms(b"req:resend-time", resend_time)
        if recv_max_size is not None:
            check_err(_nng.nng_socket_set_size(self._socket, b"recv-size-max", recv_max_size))

    def _set_ms(self, option, value):
        check_err(_nng.nng_socket_set_ms(self._socket, option, value))

    def _set_recv_timeout(self, value):
        self._set_ms(b"recv-timeout", value)

    recv_timeout = property(None, _set_recv_timeout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _nng.nng_close(self._socket)

    def dial(self, address, *, block=None):
        assert block, "this part of pynng dials with block=True alone"
        check_err(_nng.nng_dial(self._socket, address.encode(), None, 0))

    def send(self, data):
        check_err(_nng.nng_send(self._socket, data, len(data), 0))

    def recv(self):
        data, size = ctypes.c_void_p(), ctypes.c_size_t()
        check_err(_nng.nng_recv(self._socket, ctypes.byref(data), ctypes.byref(size), FLAG_ALLOC))
        try:
            return ctypes.string_at(data, size.value)
        finally:
            _nng.nng_free(data, size)


class Req0(Socket):
    _opener = "nng_req0_open"


class Pull0(Socket):
    _opener = "nng_pull0_open"
