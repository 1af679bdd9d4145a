"""Errors of a request, with the status of both protocols."""


class Refused(Exception):
    """`status`: HTTP status; `code`: name of the gRPC status."""

    def __init__(self, status, code, message):
        super().__init__(message)
        self.status, self.code = status, code

    @classmethod
    def invalid(cls, message):
        return cls(400, "INVALID_ARGUMENT", message)

    @classmethod
    def unknown(cls, message):
        return cls(404, "NOT_FOUND", message)

    @classmethod
    def busy(cls, message):
        return cls(503, "RESOURCE_EXHAUSTED", message)

    @classmethod
    def failed(cls, message):
        return cls(500, "INTERNAL", message)
