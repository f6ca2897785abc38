"""peer_proof.py: the proofs that the two nodes of a pair send each other (proto/WIRE.md), made with libsodium by ctypes. For
tests that act as one of the nodes.
"""
import ctypes
import ctypes.util
import os

CHALLENGE_SIZE, NONCE_SIZE, MAC_SIZE, KEY_SIZE = 16, 24, 16, 32
PROOF_OF_REQUEST, CHALLENGE, PROOF_OF_REPLY = 4, 6, 7  # field numbers of Request and Reply

_sodium = ctypes.CDLL(ctypes.util.find_library("sodium"))
_sodium.sodium_init()


def _subkey(master, number):
    out = ctypes.create_string_buffer(KEY_SIZE)
    _sodium.crypto_kdf_derive_from_key(out, ctypes.c_size_t(KEY_SIZE), ctypes.c_uint64(number), b"tarrypar", master)
    return out.raw


def _mac(key, nonce, data):
    out = ctypes.create_string_buffer(MAC_SIZE)
    _sodium.crypto_aead_xchacha20poly1305_ietf_encrypt_detached(
        ctypes.create_string_buffer(1), out, None, b"", ctypes.c_ulonglong(0), data, ctypes.c_ulonglong(len(data)), None, nonce, key)
    return out.raw


class PeerKey:
    def __init__(self, text):
        master = ctypes.create_string_buffer(KEY_SIZE)
        text = text.strip().encode()
        _sodium.crypto_generichash(master, ctypes.c_size_t(KEY_SIZE), text, ctypes.c_ulonglong(len(text)), None, ctypes.c_size_t(0))
        self.requests, self.replies, self.secrets = (_subkey(master.raw, number) for number in (1, 2, 3))

    def prove(self, request, challenge=bytes(CHALLENGE_SIZE)):
        """Returns the packed request with its proof, and the nonce that the reply must contain."""
        nonce = os.urandom(NONCE_SIZE)
        head = request + bytes([PROOF_OF_REQUEST << 3 | 2, CHALLENGE_SIZE + NONCE_SIZE + MAC_SIZE]) + challenge + nonce
        return head + _mac(self.requests, nonce, head), nonce

    def proves(self, reply, nonce):
        """Returns whether the reply proves that its sender has the peer key. `nonce`: that of the request."""
        proof = reply[-(2 * NONCE_SIZE + MAC_SIZE):]
        if reply[-len(proof) - 2:-len(proof)] != bytes([PROOF_OF_REPLY << 3 | 2, len(proof)]) or proof[:NONCE_SIZE] != nonce:
            return False
        return _mac(self.replies, proof[NONCE_SIZE:2 * NONCE_SIZE], reply[:-MAC_SIZE]) == proof[-MAC_SIZE:]

    def unseal(self, sealed):
        """Decrypts the cluster's secret. Returns None if it was not sealed with this key."""
        out = ctypes.create_string_buffer(len(sealed))
        nonce, box = sealed[:NONCE_SIZE], sealed[NONCE_SIZE:]
        failed = _sodium.crypto_aead_xchacha20poly1305_ietf_decrypt(out, None, None, box, ctypes.c_ulonglong(len(box)), None,
                                                                     ctypes.c_ulonglong(0), nonce, self.secrets)
        return None if failed else out.raw[:len(box) - MAC_SIZE]
