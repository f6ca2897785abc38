"""validity.py: the openssl options for the period in which a test certificate is valid, for the installed openssl."""
import subprocess


def valid_for(days):
    """Returns options for `openssl x509 -req`. `days` below 1: the certificate has expired. Newer openssl (3.5) refuses an end
    before the beginning, but accepts both dates; older openssl (3.0) counts days from now and accepts negative ones."""
    can_say = b"-not_after" in subprocess.run(["openssl", "x509", "-help"], capture_output=True, check=False).stderr
    if days > 0 or not can_say:
        return ["-days", str(days)]
    return ["-not_before", "20250101000000Z", "-not_after", "20250102000000Z"]
