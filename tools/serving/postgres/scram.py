"""SCRAM-SHA-256 (RFC 5802, RFC 7677): a client proves that it knows the password, unsaid."""

import base64
import hashlib
import hmac
import secrets

ROUNDS = 4096


class Scram:
    """One exchange: `first` answers the client's first message, `last` its proof."""

    def __init__(self, password: str) -> None:
        self._salt = secrets.token_bytes(16)
        self._salted = hashlib.pbkdf2_hmac("sha256", password.encode(), self._salt, ROUNDS)
        self._said = self._nonce = ""

    def first(self, said: str) -> str:
        """Return the server's part of the nonce, the salt and the rounds.  Raises ValueError."""
        header, _, bare = said.partition(",,")
        parts = dict(field.split("=", 1) for field in bare.split(","))
        if header not in ("n", "y") or "r" not in parts:
            raise ValueError("no first message of SCRAM-SHA-256")
        self._nonce = parts["r"] + secrets.token_urlsafe(18)
        salt = base64.b64encode(self._salt).decode()
        answer = f"r={self._nonce},s={salt},i={ROUNDS}"
        self._said = f"{bare},{answer}"
        return answer

    def last(self, said: str) -> str | None:
        """Return the server's proof; None if the client's is wrong.  Raises ValueError."""
        bare, _, proof = said.rpartition(",p=")
        parts = dict(field.split("=", 1) for field in bare.split(","))
        if parts.get("r") != self._nonce:
            return None
        talk = f"{self._said},{bare}".encode()
        key = _mac(self._salted, b"Client Key")
        stored = hashlib.sha256(key).digest()
        given = base64.b64decode(proof, validate=True)
        key_proof = bytes(a ^ b for a, b in zip(key, _mac(stored, talk), strict=True))
        if not hmac.compare_digest(given, key_proof):
            return None
        return "v=" + base64.b64encode(_mac(_mac(self._salted, b"Server Key"), talk)).decode()


def _mac(key: bytes, text: bytes) -> bytes:
    return hmac.new(key, text, hashlib.sha256).digest()
