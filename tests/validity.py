"""validity.py: for how long a certificate of a test is valid, in the words of the openssl that is here."""
import subprocess


def valid_for(days):
    """Words for `openssl x509 -req`. Below 1 it is valid no more: newer ones (3.5) refuse to end before they begin, and can be told when both are; older
    ones (3.0) count days from now, of any sign."""
    can_say = b"-not_after" in subprocess.run(["openssl", "x509", "-help"], capture_output=True, check=False).stderr
    if days > 0 or not can_say:
        return ["-days", str(days)]
    return ["-not_before", "20250101000000Z", "-not_after", "20250102000000Z"]
