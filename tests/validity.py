"""validity.py: the openssl options for the period in which a test certificate is valid, for the installed openssl."""
import subprocess


def valid_for(days):
    """Returns options for `openssl x509 -req`. `days` below 1: the certificate has expired. Newer openssl (3.5) refuses a
    number of days below 1, but accepts two dates in the past. Older openssl (3.0) does not know dates, but accepts negative
    days.
    """
    can_say = b"-not_after" in subprocess.run(["openssl", "x509", "-help"], capture_output=True, check=False).stderr
    if days > 0 or not can_say:
        return ["-days", str(days)]
    return ["-not_before", "20250101000000Z", "-not_after", "20250102000000Z"]
