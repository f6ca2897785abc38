"""certificates.py: makes a CA and certificates for one test with openssl."""
import os
import ssl
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from validity import valid_for  # noqa: E402  (the path above)


class Authority:
    """A CA; `ca` is the path of its certificate, `make` returns the paths of a certificate and its key."""

    def __init__(self, directory, name="ca"):
        self.directory = directory
        self.ca, self.key = self._self_signed(name)

    def _openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], cwd=self.directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True)

    def path(self, name):
        return os.path.join(self.directory, name)

    def _self_signed(self, name):
        certificate, key = self.path(f"{name}.crt"), self.path(f"{name}.key")
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                      "-out", certificate, "-subj", f"/CN={name}", "-days", "30",
                      "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        return certificate, key

    def make(self, name, days=30, hosts="IP:127.0.0.1,IP:::1,DNS:localhost", usage="serverAuth,clientAuth"):
        """Makes a certificate for a server or a client; with days < 1 it has expired."""
        request, certificate, key, fields = (self.path(f"{name}.{end}") for end in ("csr", "crt", "key", "ext"))
        with open(fields, "w", encoding="ascii") as file:
            file.write(f"subjectAltName={hosts}\nextendedKeyUsage={usage}\n")
        self._openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                      "-out", request, "-subj", f"/CN={name}")
        self._openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.key, "-CAcreateserial",
                      "-extfile", fields, "-out", certificate, *valid_for(days))
        os.chmod(key, 0o600)
        return certificate, key

    def serve(self, broker, name="node", **options):
        """Makes a broker that has not been started listen over TLS. Returns the paths of its certificate and key."""
        certificate, key = self.make(name, **options)
        broker.listen = "wss://127.0.0.1:0"
        broker.arguments += ["--tls-cert", certificate, "--tls-key", key]
        return certificate, key

    def context(self):
        """Returns the TLS context of a client that trusts only this CA."""
        return ssl.create_default_context(cafile=self.ca)
